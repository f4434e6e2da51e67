// Stock-client cases over segmentio's kafka-go: old protocol versions, no idempotence, and it gives up on
// LEADER_NOT_AVAILABLE.
//
//	kafka-go BOOTSTRAP      ZONES=az1=HOST:PORT,… adds the case with zones
//	kafka-go bounce BOOTSTRAP TOPIC ZONE RECORDS_PER_SECOND
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

const caseTimeMax = 60 * time.Second

func main() {
	if len(os.Args) == 6 && os.Args[1] == "bounce" {
		perSecond, err := strconv.Atoi(os.Args[5])
		if err == nil {
			err = bounce(os.Args[2], os.Args[3], os.Args[4], perSecond)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "kafka-go:", err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: kafka-go BOOTSTRAP")
		os.Exit(2)
	}
	c := connect(os.Args[1])
	all := cases
	if zones := os.Getenv("ZONES"); zones != "" {
		all = append(all, namedCase{"a_client_with_a_zone_is_led_to_its_broker", func(ctx context.Context, c *cluster) error {
			return ledToTheirZone(ctx, c, strings.Split(zones, ","))
		}})
	}
	passed, failed := 0, 0
	for _, one := range all {
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
	fmt.Printf("kafka-go: %d passed, %d failed\n", passed, failed)
	if failed > 0 {
		os.Exit(1)
	}
}
