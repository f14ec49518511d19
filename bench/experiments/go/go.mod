module gmp/bench/experiments/go

go 1.21

require github.com/panjf2000/ants/v2 v2.12.1

require golang.org/x/sync v0.11.0 // indirect
