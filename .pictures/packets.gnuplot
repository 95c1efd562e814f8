# A session's packets, as tests/lab/lab recorded them: rdma-client write on host b, over Soft-RoCE.
set terminal svg size 820,660 background 'white' font 'DejaVu Sans,12' noenhanced
unset border
unset tics
unset key
set margins 1,1,1,1
set xrange [-4.2:7.1]
set yrange [22:-1.6]
blue = 0x0969da; red = 0xcf222e; grey = 0x8c959f; dark = 0x24292f
colour(kind) = kind eq 'WRITE' ? red : kind eq 'CM' ? dark : kind eq 'SEND' ? blue : grey

# milliseconds, sender (1: the client), kind, packet, action or event of the client's program, of the server's program
$packets << end
0    1 CM    "CM: ConnectRequest, with the hello"   "rdma_connect()"           "event CONNECT_REQUEST"
126 -1 CM    "CM: ConnectReply, with the hello"     "event ESTABLISHED"        "rdma_accept()"
182  1 CM    "CM: ReadyToUse"                       "(sent by librdmacm)"       "event ESTABLISHED"
213  1 SEND  "RC Send Only: MSG_MR"                 "posts a SEND"             "its receive completes"
214 -1 ACK   "RC Acknowledge"                       "its SEND completes"       ""
217 -1 SEND  "RC Send Only: MSG_MR"                 "its receive completes"    "posts a SEND"
228  1 ACK   "RC Acknowledge"                       ""                         "its SEND completes"
235 -1 WRITE "RC RDMA Write Only: the payload"      "notices nothing"          "posts a WRITE"
241 -1 SEND  "RC Send Only: MSG_DONE"               "its receive completes"    "posts a SEND"
244  1 ACK   "RC Acknowledge"                       ""                         "its WRITE completes"
251  1 ACK   "RC Acknowledge"                       ""                         "its SEND completes"
253  1 WRITE "RC RDMA Write Only: the payload"      "posts a WRITE"            "notices nothing"
263 -1 ACK   "RC Acknowledge"                       "its WRITE completes"      ""
265  1 SEND  "RC Send Only: MSG_DONE"               "posts a SEND"             "its receive completes"
266 -1 ACK   "RC Acknowledge"                       "its SEND completes"       ""
286  1 SEND  "RC Send Only: MSG_VERDICT"            "posts a SEND"             "its receive completes"
293 -1 ACK   "RC Acknowledge"                       "its SEND completes"       ""
335 -1 SEND  "RC Send Only: MSG_VERDICT"            "its receive completes"    "posts a SEND"
342  1 ACK   "RC Acknowledge"                       ""                         "its SEND completes"
342  1 CM    "CM: DisconnectRequest"                "rdma_disconnect()"        "event DISCONNECTED"
349 -1 CM    "CM: DisconnectReply"                "event DISCONNECTED"       "rdma_disconnect(), too"
end
set label "ms" at -3.7,-1 right textcolor rgb grey
set label "the client's program" at -0.25,-1 right font ',13'
set label "adapter" at 0,-1 center offset 2.5,0 font ',13'
set label "adapter" at 4,-1 center offset -2.5,0 font ',13'
set label "the server's program" at 4.25,-1 left font ',13'
set arrow from 0,-0.5 to 0,21.6 nohead linecolor rgb grey dashtype 2
set arrow from 4,-0.5 to 4,21.6 nohead linecolor rgb grey dashtype 2
from(d) = d > 0 ? 0.06 : 3.94
aside(text) = text eq 'notices nothing' ? red : text[1:1] eq '(' ? grey : dark
plot $packets using (from($2)):($0+0.5):(3.88*$2):(0):(colour(strcol(3))) with vectors filled head size 0.12,20 linewidth 1.6 linecolor rgb variable, \
     $packets using (2):($0+0.18):4:(colour(strcol(3))) with labels font ',11' textcolor rgb variable, \
     $packets using (-3.7):($0+0.4):1 with labels right font ',11' textcolor rgb grey, \
     $packets using (-0.25):($0+0.4):5:(aside(strcol(5))) with labels right textcolor rgb variable, \
     $packets using (4.25):($0+0.4):6:(aside(strcol(6))) with labels left textcolor rgb variable
