# What help2man cannot know of the help text: the groups of options are the parts of OPTIONS, and the exit status is a
# section of its own, in which two of them may stand in one line. DATE stands for a date that every reader understands.
2s/"[A-Z][a-z]* [0-9]*"/"DATE"/
s/^\.SS "Exit status:"/.SH "EXIT STATUS"/
s/^\(\.SS ".*\):"/\1"/
0,/^\.SS/s/^\.SS/.SH OPTIONS\n&/
/^\.SH "EXIT STATUS"/,$s/^\([^.].*[^ ]\)   *\([0-9]\)  \(.*\)/\1\n.TP\n\2\n\3/
