# The pair's rate, and perftest's, by the size of an operation, one-way, as measured by tests/bench.
set terminal svg size 860,400 background 'white' font 'DejaVu Sans,12' linewidth 1.3 noenhanced
set multiplot layout 1,2 margins 0.095,0.985,0.235,0.91 spacing 0.02
set logscale xy
set xlabel "bytes in each operation"
set xrange [0.7:12e6]
set xtics ("1" 1, "16" 16, "256" 256, "4 Ki" 4096, "64 Ki" 65536, "1 Mi" 1048576, "8 Mi" 8388608)
set yrange [0.0005:400]
set grid linewidth 0.5
set key at screen 0.5,0.06 center maxrows 1 samplen 4 width -1
do for [transport in 'rxe siw'] {
	file = sprintf('.pictures/rate-%s.dat', transport)
	if (transport eq 'rxe') { set title "Soft-RoCE"; set ylabel "MB/s"; set format y '%g' } else { set title "soft-iWARP"; unset ylabel; set format y ''; unset key }
	# perftest's lines are dashed. Its error bars are solid: dashes would make them look broken.
	plot file index 'write' using 1:2:3:4 with yerrorlines pointtype 7 pointsize 0.5 linecolor '#0969da' title "write, this pair", \
	     file index 'write' using 1:5 with linespoints pointtype 6 pointsize 0.5 dashtype 2 linecolor '#0969da' title "ib_write_bw", \
	     file index 'write' using 1:6:(0):($7-$6) with vectors heads size screen 0.004,90 linecolor '#0969da' notitle, \
	     file index 'read' using 1:2:3:4 with yerrorlines pointtype 5 pointsize 0.5 linecolor '#bc4c00' title "read, this pair", \
	     file index 'read' using 1:5 with linespoints pointtype 4 pointsize 0.5 dashtype 2 linecolor '#bc4c00' title "ib_read_bw", \
	     file index 'read' using 1:6:(0):($7-$6) with vectors heads size screen 0.004,90 linecolor '#bc4c00' notitle
}
