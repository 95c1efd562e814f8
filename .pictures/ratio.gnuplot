# The pair's rate divided by perftest's, two-way, by size: the table in tests/README.md, "Bench", drawn.
set terminal svg size 820,430 background 'white' font 'DejaVu Sans,13' linewidth 1.5
set title "Rate of this pair divided by perftest's, two-way: median and range of five pairs of runs"
set xlabel 'bytes per operation'
set ylabel 'ratio (log scale)'
set logscale y 2
set yrange [0.5:16]
set ytics (0.5, 1, 2, 4, 8, 16)
set xrange [0.5:5.5]
set xtics ('64 B' 1, '4 KiB' 2, '64 KiB' 3, '1 MiB' 4, '8 MiB' 5)
set grid ytics
set key top center horizontal
set arrow from 0.5,1 to 5.5,1 nohead linecolor 'black' linewidth 1.5

# size, then median, least and greatest: write and read over Soft-RoCE, write and read over soft-iWARP
$ratios << end
1  8.21 6.13 14.6  4.39 2.50 12.7  2.96 1.84 4.05  2.06 1.49 9.03
2  2.21 1.42 2.82  2.14 1.74 2.89  1.25 0.78 1.53  1.37 1.23 2.16
3  1.21 1.03 1.68  1.36 1.09 1.47  1.15 0.95 1.92  1.42 0.93 3.68
4  1.36 1.18 3.34  2.72 1.37 3.34  1.25 1.01 2.93  1.19 0.96 2.80
5  1.39 1.26 2.44  9.79 5.35 10.2  1.07 0.90 1.17  3.15 1.13 3.67
end
plot $ratios using ($1-0.15):2:3:4 with yerrorbars pointtype 7 linecolor '#0969da' title 'write, Soft-RoCE', \
     $ratios using ($1-0.05):5:6:7 with yerrorbars pointtype 6 linecolor '#0969da' title 'read, Soft-RoCE', \
     $ratios using ($1+0.05):8:9:10 with yerrorbars pointtype 5 linecolor '#9a6700' title 'write, soft-iWARP', \
     $ratios using ($1+0.15):11:12:13 with yerrorbars pointtype 4 linecolor '#9a6700' title 'read, soft-iWARP'
