module example.com/embed

go 1.26

require github.com/berthdev/berth v0.0.0

replace github.com/berthdev/berth => ../..
