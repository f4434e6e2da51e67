package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// zoneCases are for a broker that reads the zone from a token in the client id. Each zone is given
// as ZONE=HOST:PORT of the only broker in it.
func zoneCases(zones []string) []namedCase {
	return []namedCase{
		{"a_client_with_a_zone_is_led_to_its_broker", func(ctx context.Context, c *cluster) error {
			return ledToTheirZone(ctx, c, zones)
		}},
		{"records_of_every_zone_come_back_in_every_zone", func(ctx context.Context, c *cluster) error {
			return acrossZones(ctx, c, zones)
		}},
	}
}

func inZone(name string) kgo.Opt { return kgo.ClientID("franz,zone=" + name) }

func ledToTheirZone(ctx context.Context, c *cluster, zones []string) error {
	topic, err := c.topic(ctx, "led", 12)
	if err != nil {
		return err
	}
	for _, zone := range zones {
		name, due, _ := strings.Cut(zone, "=")
		client, err := c.client(inZone(name))
		if err != nil {
			return err
		}
		metadata, err := kadm.NewClient(client).Metadata(ctx, topic)
		client.Close()
		if err != nil {
			return err
		}
		brokers := map[int32]string{}
		for _, broker := range metadata.Brokers {
			brokers[broker.NodeID] = fmt.Sprintf("%s:%d", broker.Host, broker.Port)
		}
		for _, partition := range metadata.Topics[topic].Partitions.Sorted() {
			if brokers[partition.Leader] != due {
				return fmt.Errorf("a client of %s is led to %s for partition %d", name, brokers[partition.Leader], partition.Partition)
			}
		}
	}
	return nil
}

func acrossZones(ctx context.Context, c *cluster, zones []string) error {
	topic, err := c.topic(ctx, "across", 1)
	if err != nil {
		return err
	}
	const each = 300
	sent := stamped(topic, 0, "across", each*len(zones))
	for at, zone := range zones {
		name, _, _ := strings.Cut(zone, "=")
		first := at * each
		if err := c.produce(ctx, sent[first:first+each], int64(first), inZone(name)); err != nil {
			return fmt.Errorf("writing in %s: %w", name, err)
		}
		// What one zone has acknowledged can be read in all of them.
		for _, other := range zones {
			reader, _, _ := strings.Cut(other, "=")
			if err := c.comesBack(ctx, sent[:first+each], 0, inZone(reader)); err != nil {
				return fmt.Errorf("reading in %s after writing in %s: %w", reader, name, err)
			}
		}
	}
	return nil
}
