// One long sequence through a layer around the scan: a product to its inputs, one to
// its gates, one behind it.
func.func @layer(%x: tensor<1x4096x1024xf32>, %wx: tensor<4096x1024xf32>,
                 %wg: tensor<4096x1024xf32>, %wo: tensor<1024x4096xf32>)
    -> tensor<1x4096x1024xf32> {
  %in = xf.linear %x, %wx {contract = 1 : i64} : (tensor<1x4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<1x4096x4096xf32>
  %gate = xf.linear %x, %wg {contract = 1 : i64} : (tensor<1x4096x1024xf32>, tensor<4096x1024xf32>) -> tensor<1x4096x4096xf32>
  %h = scan.linear %in, %gate : (tensor<1x4096x4096xf32>, tensor<1x4096x4096xf32>) -> tensor<1x4096x4096xf32>
  %y = xf.linear %h, %wo {contract = 1 : i64} : (tensor<1x4096x4096xf32>, tensor<1024x4096xf32>) -> tensor<1x4096x1024xf32>
  return %y : tensor<1x4096x1024xf32>
}
