# plot.gp: FOLDER/*.dat as FOLDER/bench.svg. Bars are medians, whiskers quartiles.
#   gnuplot -e "folder='bench/results'" bench/plot.gp
set terminal svg size 1400,1600 font "sans,12" background "white"
set output folder."/bench.svg"
set multiplot layout 4,2 margins 0.06,0.97,0.11,0.97 spacing 0.07,0.09
set style fill solid 0.6
set boxwidth 0.7
set bars 2
set grid ytics
set xtics rotate by -25 left nomirror
set key off
set yrange [0:]
set linetype 9 lc "black"

set title "Start to end of a command that does nothing (us)"
plot folder."/start.dat" using 0:3:xtic(1) with boxes, "" using 0:3:4:5 with yerrorbars lt 9 pt 0
set title "From a signal to the command's having it (us)"
plot folder."/signal.dat" using 0:3:xtic(1) with boxes, "" using 0:3:4:5 with yerrorbars lt 9 pt 0
do for [as in "'process 1' subreaper"] {
	set title "Orphans reaped a second, as ".as
	plot folder."/orphans.dat" index as using 0:3:xtic(1) with boxes, \
		"" index as using 0:3:4:5 with yerrorbars lt 9 pt 0
}
set title "Private memory, idle (kB)"
plot folder."/memory.dat" using 0:3:xtic(1) with boxes

set yrange [*:*]
set logscale y
set logscale x
set xrange [*:*]
set xtics norotate
set offsets graph 0.05, graph 0.05, 0, 0
set format "10^{%T}"
set key top left
ways = "kernel treewrap-static treewrap treewrap-cgroup"
of(shape, way) = sprintf("<awk '/^#/ { on = $2 == \"%s\" } on && $1 == \"\\\"%s\\\"\"' %s/empty.dat", \
	shape, way, folder)
do for [shape in "wide deep"] {
	set title "Time to end a tree of so many sleeping processes, ".shape." (us)"
	plot for [way in ways] of(shape, way) using 2:3:4:5 with yerrorlines pt 7 ps 0.5 title way
}

unset logscale x
unset offsets
set key off
set xtics font ",8" rotate by -60
set format x
set xrange [-1:24]
set yrange [1:30000]
set title "Time to end a fork bomb (ms)"
plot "<cat ".folder."/bombs.dat ".folder."/large-bombs.dat" \
	using 0:3:4:5:xtic(1) with yerrorbars pt 7 ps 0.6
unset multiplot
