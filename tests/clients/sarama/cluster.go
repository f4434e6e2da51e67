package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

// cluster is what every case is given.
type cluster struct {
	seeds  []string
	kafka  sarama.KafkaVersion
	client sarama.Client
	admin  sarama.ClusterAdmin
	run    string
}

func connect(bootstrap string, kafka sarama.KafkaVersion) (*cluster, error) {
	c := &cluster{seeds: strings.Split(bootstrap, ","), kafka: kafka, run: fmt.Sprint(time.Now().UnixMilli())}
	var err error
	if c.client, err = sarama.NewClient(c.seeds, c.config()); err == nil {
		c.admin, err = sarama.NewClusterAdmin(c.seeds, c.config())
	}
	return c, err
}

func (c *cluster) close() {
	_ = c.admin.Close()
	_ = c.client.Close()
}

func (c *cluster) config() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = c.kafka
	config.ClientID = "sarama-cases"
	config.Producer.Return.Successes = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Return.Errors = true
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	return config
}

// idempotent producers of this client have one request on its way to a broker.
func (c *cluster) idempotent() *sarama.Config {
	config := c.config()
	config.Producer.Idempotent = true
	config.Net.MaxOpenRequests = 1
	return config
}

func (c *cluster) name(what string) string { return fmt.Sprintf("sarama-%s-%s", what, c.run) }

// topic makes one that no earlier run has used, and waits until it is shown.
func (c *cluster) topic(what string, partitions int32, settings map[string]*string) (string, error) {
	name := c.name(what)
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: settings}
	if err := c.admin.CreateTopic(name, detail, false); err != nil {
		return "", err
	}
	for {
		told, err := c.admin.DescribeTopics([]string{name})
		if err != nil {
			return "", err
		}
		if told[0].Err == sarama.ErrNoError && len(told[0].Partitions) == int(partitions) {
			return name, c.client.RefreshMetadata(name)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// values are n of them, told apart by what they begin with.
func values(what string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d", what, i)
	}
	return all
}

func (c *cluster) write(config *sarama.Config, topic string, partition int32, values []string) error {
	producer, err := sarama.NewSyncProducer(c.seeds, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	return producer.SendMessages(messages(topic, partition, values))
}

func messages(topic string, partition int32, values []string) []*sarama.ProducerMessage {
	all := make([]*sarama.ProducerMessage, len(values))
	for i, value := range values {
		all[i] = &sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(value)}
	}
	return all
}

// read gives the values of so many records, in their order.
func (c *cluster) read(config *sarama.Config, topic string, start int64, count int) ([]string, error) {
	consumer, err := sarama.NewConsumer(c.seeds, config)
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	reader, err := consumer.ConsumePartition(topic, 0, start)
	if err != nil {
		return nil, err
	}
	defer reader.Close()
	var read []string
	for len(read) < count {
		select {
		case message := <-reader.Messages():
			read = append(read, string(message.Value))
		case err := <-reader.Errors():
			return read, err.Err
		}
	}
	return read, nil
}
