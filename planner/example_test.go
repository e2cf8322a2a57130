package planner_test

import (
	"context"
	"fmt"
	"log"

	"github.com/berth-onnx/berth/planner"
)

// A problem is a list of buffers with sizes and lives; the plan says where each lies,
// how high the arena is, and what proves that it can not be lower.
func Example() {
	p := &planner.Problem{Buffers: []planner.Buffer{
		{Name: "a", Size: 1000, Lo: 0, Hi: 3},
		{Name: "b", Size: 400, Lo: 3, Hi: 7},
		{Name: "c", Size: 500, Lo: 3, Hi: 7},
	}}
	auto, err := planner.Get("auto")
	if err != nil {
		log.Fatal(err)
	}
	s, err := auto.Plan(context.Background(), p)
	if err != nil {
		log.Fatal(err)
	}
	if err := planner.Validate(p, s); err != nil {
		log.Fatal(err)
	}
	fmt.Println("arena:", s.ArenaBytes, "bound:", s.LowerBound, "proven:", s.Proven())
	fmt.Println("b and c share the place of a:", max(s.Offsets[1]+400, s.Offsets[2]+500) <= 1000)
	// Output:
	// arena: 1000 bound: 1000 proven: true
	// b and c share the place of a: true
}

// Without a schedule, buffers on branches that may run at once lie side by side.
func ExampleNewPartial() {
	// 0 ─▶ 1 ─▶ 3 and 0 ─▶ 2 ─▶ 3; one buffer is made and read on either branch
	order, err := planner.NewPartial(4, [][2]int{{0, 1}, {0, 2}, {1, 3}, {2, 3}}, []planner.Life{
		{Heads: []int{1}, Tails: []int{1}},
		{Heads: []int{2}, Tails: []int{2}},
	})
	if err != nil {
		log.Fatal(err)
	}
	p := &planner.Problem{Buffers: []planner.Buffer{{Size: 7}, {Size: 9}}, Order: order}
	auto, err := planner.Get("auto")
	if err != nil {
		log.Fatal(err)
	}
	s, err := auto.Plan(context.Background(), p)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(order.Interfere(0, 1), s.ArenaBytes)
	// Output: true 16
}
