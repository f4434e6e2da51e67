// A group whose coordinator is taken away again and again: what members were told is recorded, and checked for
// committed offsets that go back, are lost or rise again, and for partitions that are two members'.
//
//	coordinator run BOOTSTRAP SECONDS HISTORY     records; members come and go meanwhile
//	coordinator check HISTORY                     exits 1 when a rule is broken
//	coordinator find BOOTSTRAP GROUP              prints the broker that coordinates it
//	coordinator settle BOOTSTRAP MEMBERS          prints how long a group takes to settle when one joins and one leaves
package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

const group = "coordinator-killed"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "coordinator:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: coordinator run|check|find|settle …")
	}
	switch {
	case args[0] == "run" && len(args) == 4:
		seconds, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return record(strings.Split(args[1], ","), time.Duration(seconds)*time.Second, args[3])
	case args[0] == "check" && len(args) == 2:
		events, err := load(args[1])
		if err != nil {
			return err
		}
		broken := check(events)
		for _, one := range broken {
			fmt.Println(one)
		}
		fmt.Println(summary(events))
		if len(broken) > 0 {
			return fmt.Errorf("%d rules broken", len(broken))
		}
		return nil
	case args[0] == "find" && len(args) == 3:
		return find(strings.Split(args[1], ","), args[2])
	case args[0] == "settle" && len(args) == 3:
		members, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return settle(strings.Split(args[1], ","), members)
	}
	return fmt.Errorf("unknown command %v", args)
}

func client(seeds []string, options ...kgo.Opt) (*kgo.Client, error) {
	common := []kgo.Opt{
		kgo.SeedBrokers(seeds...),
		kgo.ClientID("coordinator"),
		kgo.DialTimeout(2 * time.Second),
		kgo.RetryTimeout(30 * time.Second),
		kgo.UnknownTopicRetries(10),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	return kgo.NewClient(append(common, options...)...)
}

func find(seeds []string, group string) error {
	c, err := client(seeds)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		found := kadm.NewClient(c).FindGroupCoordinators(ctx, group)
		if one, ok := found[group]; ok && one.Err == nil {
			fmt.Println(one.NodeID)
			return nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return ctx.Err()
}
