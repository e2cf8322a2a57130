package rewrite
import ("testing";"fmt";"sort";"github.com/berth-onnx/berth/ssa";"os")
func TestTmpHist(t *testing.T){
 for _,c:=range openShared(t,"models") { 
  m,err:=load(c); if err!=nil {t.Fatal(err)}
  lim:=m.OpsetVersion("")
  r,err:=Run(t.Context(),m,Options{Reasons:true}); if err!=nil {t.Fatal(err)}
  h:=map[string]int{}; m.Graph.Walk(func(g *ssa.Graph){for _,n:=range g.Nodes {h[n.Op]++}})
  var ks []string; for k:=range h {ks=append(ks,k)}; sort.Slice(ks,func(i,j int)bool{return h[ks[i]]>h[ks[j]]})
  s:=""; for _,k:=range ks {s+=fmt.Sprintf("%s:%d ",k,h[k])}
  t.Log(c.Name,"opset",lim,r.Before.Nodes,r.After.Nodes,s)
  sk:=map[string]int{}; for _,x:=range r.Skipped {sk[x.Pass+": "+x.Why]++}; for k,v:=range sk { if v>0 {t.Log("   ",v,k)}}
  os.WriteFile("/tmp/dump_"+c.Name+".txt",[]byte(m.Graph.String()),0644)
 }
}
