# The latency of a READ of 8 bytes, by percentile, in the pair and in perftest, as measured by tests/bench.
set terminal svg size 860,400 background 'white' font 'DejaVu Sans,12' linewidth 1.3 noenhanced
set multiplot layout 1,2 margins 0.105,0.985,0.235,0.91 spacing 0.02
set logscale y
set xlabel "percentile of 2000 READs of 8 bytes, one after the other"
set xrange [-0.3:4.3]
set xtics ("min" 0, "50" 1, "99" 2, "99.9" 3, "max" 4)
set yrange [50:500000]
set grid linewidth 0.5
set key at screen 0.49,0.06 center maxrows 1 samplen 4 width -3 font ',11'
do for [transport in 'rxe siw'] {
	file = sprintf('.pictures/latency-%s.dat', transport)
	if (transport eq 'rxe') { set title "Soft-RoCE"; set ylabel "microseconds"; set format y '%g' } else { set title "soft-iWARP"; unset ylabel; set format y ''; unset key }
	# perftest's lines are dashed. Its error bars are solid: dashes would make them look broken.
	plot file index 'polling' using ($1-0.12):2:3:4 with yerrorlines pointtype 7 pointsize 0.5 linecolor '#0969da' title "pair, polling", \
	     file index 'polling' using ($1-0.04):5 with linespoints pointtype 6 pointsize 0.5 dashtype 2 linecolor '#0969da' title "ib_read_lat, polling", \
	     file index 'polling' using ($1-0.04):6:(0):($7-$6) with vectors heads size screen 0.004,90 linecolor '#0969da' notitle, \
	     file index 'sleeping' using ($1+0.04):2:3:4 with yerrorlines pointtype 5 pointsize 0.5 linecolor '#bc4c00' title "pair, sleeping", \
	     file index 'sleeping' using ($1+0.12):5 with linespoints pointtype 4 pointsize 0.5 dashtype 2 linecolor '#bc4c00' title "ib_read_lat, sleeping", \
	     file index 'sleeping' using ($1+0.12):6:(0):($7-$6) with vectors heads size screen 0.004,90 linecolor '#bc4c00' notitle
}
