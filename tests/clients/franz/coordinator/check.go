package main

import (
	"fmt"
	"sort"
)

// check says which rules are broken, a line for each case. Only what was acknowledged before something else was asked
// for binds it: what overlaps may have happened in either order.
func check(events []event) []string {
	var broken []string
	broken = append(broken, backwards(events)...)
	broken = append(broken, lost(events)...)
	broken = append(broken, owners(events)...)
	return broken
}

func of(events []event, what string) []event {
	var found []event
	for _, e := range events {
		if e.What == what && e.Error == "" {
			found = append(found, e)
		}
	}
	sort.Slice(found, func(a, b int) bool { return found[a].Ended < found[b].Ended })
	return found
}

// A16: of two looks at the committed offsets, or two commits, the later one shows no less.
func backwards(events []event) []string {
	var broken []string
	for _, what := range []string{"seen", "commit"} {
		all := of(events, what)
		for partition, points := range byPartition(all) {
			highest, at := int64(-1), 0
			begun := append([]point(nil), points...)
			sort.Slice(begun, func(a, b int) bool { return begun[a].begun < begun[b].begun })
			for _, later := range begun {
				for at < len(points) && points[at].ended < later.begun {
					highest = max(highest, points[at].offset)
					at++
				}
				if later.offset < highest {
					broken = append(broken, fmt.Sprintf("A16: partition %d: %s %d at %d ns after %d", partition, what, later.offset, later.begun, highest))
				}
			}
		}
	}
	return broken
}

// No commit that was acknowledged is missing from what is shown or read from afterwards, and nothing is shown that
// nobody asked for.
func lost(events []event) []string {
	var broken []string
	commits := byPartition(of(events, "commit"))
	attempts := map[int32]map[int64]bool{}
	for _, e := range events {
		if e.What == "commit" {
			for partition, offset := range e.Offsets {
				if attempts[partition] == nil {
					attempts[partition] = map[int64]bool{}
				}
				attempts[partition][offset] = true
			}
		}
	}
	for _, what := range []string{"seen", "read"} {
		for _, e := range of(events, what) {
			for partition, offset := range e.Offsets {
				highest := int64(-1)
				for _, one := range commits[partition] {
					if one.ended < e.Begun {
						highest = max(highest, one.offset)
					}
				}
				if offset < highest {
					broken = append(broken, fmt.Sprintf("lost: partition %d: %s %d at %d ns, but %d was acknowledged", partition, what, offset, e.Begun, highest))
				}
				if offset > 0 && !attempts[partition][offset] {
					broken = append(broken, fmt.Sprintf("invented: partition %d: %s %d at %d ns, which nobody committed", partition, what, offset, e.Begun))
				}
			}
		}
	}
	return broken
}

// A17: in one generation a partition is one member's; and when a newer generation has given it to somebody, a commit
// of an older one that is asked for after that fails.
func owners(events []event) []string {
	var broken []string
	type place struct {
		generation int32
		partition  int32
	}
	owner := map[place]string{}
	newest := map[int32][]event{}
	for _, e := range of(events, "assigned") {
		for partition := range e.Offsets {
			at := place{e.Generation, partition}
			if other, ok := owner[at]; ok && other != e.Member {
				broken = append(broken, fmt.Sprintf("A17a: partition %d is %s's and %s's in generation %d", partition, other, e.Member, e.Generation))
			}
			owner[at] = e.Member
			newest[partition] = append(newest[partition], e)
		}
	}
	for _, e := range of(events, "commit") {
		for partition := range e.Offsets {
			for _, later := range newest[partition] {
				if later.Generation > e.Generation && later.Ended < e.Begun {
					broken = append(broken, fmt.Sprintf("A17b: partition %d: generation %d commits after %s has it in %d", partition, e.Generation, later.Member, later.Generation))
					break
				}
			}
		}
	}
	return broken
}

type point struct {
	begun, ended, offset int64
}

func byPartition(events []event) map[int32][]point {
	points := map[int32][]point{}
	for _, e := range events {
		for partition, offset := range e.Offsets {
			points[partition] = append(points[partition], point{e.Begun, e.Ended, offset})
		}
	}
	return points
}

func summary(events []event) string {
	failed, generations := 0, map[int32]bool{}
	for _, e := range events {
		if e.What == "commit" && e.Error != "" {
			failed++
		}
		if e.What == "assigned" {
			generations[e.Generation] = true
		}
	}
	return fmt.Sprintf("%d commits acknowledged, %d not; %d generations; %d looks; %d resumptions",
		len(of(events, "commit")), failed, len(generations), len(of(events, "seen")), len(of(events, "read")))
}
