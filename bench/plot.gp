# plot.gp: FOLDER/*.dat as FOLDER/bench.svg. Bars are medians, whiskers quartiles.
#   gnuplot -e "folder='bench/results'" bench/plot.gp
set terminal svg size 1400,1500 font "sans,12" background "white"
set output folder."/bench.svg"
set multiplot layout 4,2 margins 0.07,0.98,0.07,0.96 spacing 0.08,0.09
set style fill solid 0.6
set boxwidth 0.7
set grid ytics
set xtics rotate by -30 left
set key off
set yrange [0:]

set title "Start to end of a command that does nothing (us)"
plot folder."/start.dat" using 0:3:xtic(1) with boxes, "" using 0:3:4:5 with yerrorbars lc "black"
set title "From a signal to the command's having it (us)"
plot folder."/signal.dat" using 0:3:xtic(1) with boxes, "" using 0:3:4:5 with yerrorbars lc "black"
set title "Orphans reaped a second, as process 1"
plot folder."/orphans.dat" index "process 1" using 0:3:xtic(1) with boxes, \
	"" index "process 1" using 0:3:4:5 with yerrorbars lc "black"
set title "Orphans reaped a second, as subreaper"
plot folder."/orphans.dat" index "subreaper" using 0:3:xtic(1) with boxes, \
	"" index "subreaper" using 0:3:4:5 with yerrorbars lc "black"
set title "Private memory, idle (kB)"
plot folder."/memory.dat" using 0:3:xtic(1) with boxes, "" using 0:3:4:5 with yerrorbars lc "black"

set yrange [*:*]
set logscale y
set title "Time to end a fork bomb (ms)"
set xtics font ",8" rotate by -60
plot "<cat ".folder."/bombs.dat ".folder."/large-bombs.dat" using 0:3:4:5:xtic(1) with yerrorbars pt 7 ps 0.6
set logscale x
set xtics font ",12" norotate
set format x "10^{%T}"
set key top left
ways = "kernel treewrap-static treewrap"
do for [shape in "wide deep"] {
	set title "Time to end a tree of sleeping processes, ".shape." (us)"
	plot for [way in ways] folder."/empty.dat" index shape \
		using (strcol(1) eq way ? $2 : NaN):3:4:5 with yerrorlines title way
}
unset multiplot
