// Stock-client cases over franz-go, the strictest of the modern clients.
//
//	franz BOOTSTRAP      ZONES=az1=HOST:PORT,… adds the cases across zones
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

const caseTimeMax = 60 * time.Second

type namedCase struct {
	name string
	run  func(context.Context, *cluster) error
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "bounce" {
		runBounce()
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: franz BOOTSTRAP")
		os.Exit(2)
	}
	c, err := connect(strings.Split(os.Args[1], ","))
	if err != nil {
		fmt.Fprintln(os.Stderr, "franz:", err)
		os.Exit(1)
	}
	defer c.close()
	cases := append(append(append(append(topicCases, recordCases...), offsetCases...), groupCases...), transactionCases...)
	if zones := os.Getenv("ZONES"); zones != "" {
		cases = append(cases, zoneCases(strings.Split(zones, ","))...)
	}
	passed, failed := 0, 0
	for _, one := range cases {
		ctx, cancel := context.WithTimeout(context.Background(), caseTimeMax)
		started := time.Now()
		err := one.run(ctx, c)
		cancel()
		seconds := time.Since(started).Seconds()
		if err != nil {
			failed++
			fmt.Printf("FAILED  %5.1f s  %s: %v\n", seconds, one.name, err)
		} else {
			passed++
			fmt.Printf("ok      %5.1f s  %s\n", seconds, one.name)
		}
	}
	fmt.Printf("franz: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
