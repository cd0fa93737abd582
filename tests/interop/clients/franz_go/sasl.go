package main

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// loginTimeout is short because the client tries again when its login was refused.
const loginTimeout = 10 * time.Second

// overSASL logs in, produces a record and tells the first that it then reads.
func overSASL(ctx context.Context, asked *request) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, loginTimeout)
	defer cancel()
	var mechanism sasl.Mechanism
	switch asked.Mechanism {
	case "PLAIN":
		mechanism = plain.Auth{User: asked.User, Pass: asked.Password}.AsMechanism()
	case "SCRAM-SHA-256":
		mechanism = scram.Auth{User: asked.User, Pass: asked.Password}.AsSha256Mechanism()
	default:
		mechanism = scram.Auth{User: asked.User, Pass: asked.Password}.AsSha512Mechanism()
	}
	client, err := kgo.NewClient(
		kgo.SeedBrokers(asked.Servers),
		kgo.SASL(mechanism),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{asked.Topic: {0: kgo.NewOffset().AtStart()}}),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
	)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: asked.Topic, Value: []byte("over SASL")}).FirstErr(); err != nil {
		return nil, err
	}
	fetches := client.PollRecords(ctx, 1)
	if err := fetches.Err0(); err != nil {
		return nil, err
	}
	values := []string{}
	fetches.EachRecord(func(record *kgo.Record) { values = append(values, string(record.Value)) })
	return values, nil
}
