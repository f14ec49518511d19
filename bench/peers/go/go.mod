module gmp/bench/peers/go

go 1.21
