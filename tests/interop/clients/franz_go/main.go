// franz-go as an agent: JSON lines in, JSON lines out, as tests/interop/clients/python/line_agent.py describes.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const timeout = 30 * time.Second

type record struct {
	Topic     string       `json:"topic"`
	Partition int32        `json:"partition"`
	Offset    int64        `json:"offset"`
	Timestamp *int64       `json:"timestamp"`
	Key       *string      `json:"key"`
	Value     *string      `json:"value"`
	Headers   [][2]*string `json:"headers"`
}

type request struct {
	Do         string             `json:"do"`
	Servers    string             `json:"servers"`
	Topic      string             `json:"topic"`
	Topics     []string           `json:"topics"`
	Codec      string             `json:"codec"`
	Records    []record           `json:"records"`
	Counts     map[int32]int      `json:"counts"`
	Member     string             `json:"member"`
	Group      string             `json:"group"`
	Protocol   string             `json:"protocol"`
	Instance   *string            `json:"instance"`
	Assignors  []string           `json:"assignors"`
	Partitions json.RawMessage    `json:"partitions"`
	Total      int                `json:"total"`
	Configs    map[string]*string `json:"configs"`
	Before     map[int32]int64    `json:"before"`
	Offsets    map[int32]int64    `json:"offsets"`
	At         json.RawMessage    `json:"at"`
	Isolation  *string            `json:"isolation"`
	Source     string             `json:"source"`
	Count      int                `json:"count"`
	Mechanism  string             `json:"mechanism"`
	User       string             `json:"user"`
	Password   string             `json:"password"`

	TransactionalID string        `json:"transactional_id"`
	Transactions    []transaction `json:"transactions"`
}

type transaction struct {
	Records []record `json:"records"`
	Commit  bool     `json:"commit"`
}

type operation func(context.Context, *request) (any, error)

type administration func(context.Context, *kadm.Client, *request) (any, error)

func main() {
	operations := map[string]operation{
		"produce": produce, "consume": consume,
		"join": join, "look": look, "commit": commit, "leave": leave,
		"transact": transact, "fence": fence, "copy": copyAll,
		"over_sasl": overSASL,
	}
	for name, action := range administrations {
		operations[name] = administer(action)
	}
	lines := bufio.NewReaderSize(os.Stdin, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		answer, err := json.Marshal(done(operations, line))
		if err != nil {
			panic(err)
		}
		fmt.Println(string(answer))
	}
}

func done(operations map[string]operation, line []byte) map[string]any {
	var asked request
	if err := json.Unmarshal(line, &asked); err != nil {
		return map[string]any{"error": err.Error(), "code": nil}
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	answer, err := operations[asked.Do](ctx, &asked)
	if err == nil {
		return map[string]any{"answer": answer}
	}
	fmt.Fprintln(os.Stderr, asked.Do, err)
	var known *kerr.Error
	if errors.As(err, &known) {
		return map[string]any{"error": err.Error(), "code": known.Code}
	}
	return map[string]any{"error": err.Error(), "code": nil}
}

func administer(action administration) operation {
	return func(ctx context.Context, asked *request) (any, error) {
		client, err := kgo.NewClient(kgo.SeedBrokers(seeds(asked)...))
		if err != nil {
			return nil, err
		}
		defer client.Close()
		return action(ctx, kadm.NewClient(client), asked)
	}
}

func produce(ctx context.Context, asked *request) (any, error) {
	codec := map[string]kgo.CompressionCodec{
		"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
		"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
	}[asked.Codec]
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds(asked)...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec),
		kgo.ProducerLinger(5*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	wanted := records(asked.Topic, asked.Records)
	offsets := [][2]int64{}
	// Results come in the order in which promises are kept; the records themselves know their offsets.
	if err := client.ProduceSync(ctx, wanted...).FirstErr(); err != nil {
		return nil, err
	}
	for _, sent := range wanted {
		offsets = append(offsets, [2]int64{int64(sent.Partition), sent.Offset})
	}
	return offsets, nil
}

func records(topic string, described []record) []*kgo.Record {
	var wanted []*kgo.Record
	for _, one := range described {
		made := &kgo.Record{Topic: topic, Partition: one.Partition, Key: bytes(one.Key), Value: bytes(one.Value)}
		if one.Timestamp != nil {
			made.Timestamp = time.UnixMilli(*one.Timestamp)
		}
		for _, header := range one.Headers {
			made.Headers = append(made.Headers, kgo.RecordHeader{Key: *header[0], Value: bytes(header[1])})
		}
		wanted = append(wanted, made)
	}
	return wanted
}

func consume(ctx context.Context, asked *request) (any, error) {
	partitions, wanted := map[int32]kgo.Offset{}, 0
	for partition, count := range asked.Counts {
		partitions[partition] = kgo.NewOffset().AtStart()
		wanted += count
	}
	isolation := kgo.ReadUncommitted()
	if asked.Isolation != nil && *asked.Isolation == "read_committed" {
		isolation = kgo.ReadCommitted()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(seeds(asked)...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: partitions}),
		kgo.FetchIsolationLevel(isolation),
		kgo.FetchMaxWait(100*time.Millisecond),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []record{}
	for len(found) < wanted {
		fetches := client.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			return nil, err
		}
		fetches.EachRecord(func(fetched *kgo.Record) { found = append(found, described(fetched)) })
	}
	return found, nil
}

func described(fetched *kgo.Record) record {
	timestamp := fetched.Timestamp.UnixMilli()
	made := record{
		Topic: fetched.Topic, Partition: fetched.Partition, Offset: fetched.Offset, Timestamp: &timestamp,
		Key: text(fetched.Key), Value: text(fetched.Value), Headers: [][2]*string{},
	}
	for _, header := range fetched.Headers {
		made.Headers = append(made.Headers, [2]*string{&header.Key, text(header.Value)})
	}
	return made
}

func seeds(asked *request) []string { return strings.Split(asked.Servers, ",") }

func bytes(value *string) []byte {
	if value == nil {
		return nil
	}
	return append([]byte{}, *value...)
}

func text(value []byte) *string {
	if value == nil {
		return nil
	}
	made := string(value)
	return &made
}
