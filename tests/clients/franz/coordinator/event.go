package main

import (
	"bufio"
	"encoding/json"
	"os"
	"sync"
	"time"
)

// event is one thing a client was told. Times are nanoseconds since the run began, on one clock.
type event struct {
	// assigned: the member's partitions in this generation. read: the first offset read of each partition after it was
	// assigned, where the group had committed one. commit: with what became of it. seen: what the group has committed.
	What       string          `json:"what"`
	Begun      int64           `json:"begun"`
	Ended      int64           `json:"ended"`
	Member     string          `json:"member,omitempty"`
	Generation int32           `json:"generation,omitempty"`
	Offsets    map[int32]int64 `json:"offsets,omitempty"`
	Error      string          `json:"error,omitempty"`
}

type recorder struct {
	mutex sync.Mutex
	out   *bufio.Writer
	file  *os.File
	start time.Time
}

func newRecorder(path string) (*recorder, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	return &recorder{out: bufio.NewWriter(file), file: file, start: time.Now()}, nil
}

func (r *recorder) now() int64 { return time.Since(r.start).Nanoseconds() }

func (r *recorder) add(e event) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if e.Ended == 0 {
		e.Ended = r.now()
	}
	line, err := json.Marshal(e)
	if err != nil {
		panic(err)
	}
	r.out.Write(append(line, '\n'))
}

func (r *recorder) close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if err := r.out.Flush(); err != nil {
		return err
	}
	return r.file.Close()
}

func load(path string) ([]event, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var events []event
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return nil, err
		}
		events = append(events, e)
	}
	return events, lines.Err()
}
