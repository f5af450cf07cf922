/** In which direction each block of Markdown is read: a page may mix them, and so may a list or a table. */

/** The parts of a Markdown tree that matter here. */
interface TreeNode {
  type: string
  value?: string
  children?: TreeNode[]
  data?: Record<string, unknown>
}

const RIGHT_TO_LEFT =
  /^[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Script=Mandaic}\p{Script=Samaritan}\p{Script=Hanifi_Rohingya}]/u

/** By the first letter, as the browser decides it; `auto` while there is none. */
export function directionOf(text: string): 'ltr' | 'rtl' | 'auto' {
  const letter = /\p{L}/u.exec(text)?.[0]
  return letter === undefined ? 'auto' : RIGHT_TO_LEFT.test(letter) ? 'rtl' : 'ltr'
}

/** Text of their own: the browser looks at it. */
const LEAVES = new Set(['paragraph', 'heading', 'tableCell'])
/** For blocks that hold others the browser would look at nothing: their first letter decides here. */
const HOLDERS = new Set(['list', 'listItem', 'blockquote', 'table', 'footnoteDefinition'])

/** A remark plugin: gives every block its `dir`. Code in a line is read from the left, whatever stands around it. */
export function remarkDirections() {
  return (tree: unknown): void => visit(tree as TreeNode)
}

function visit(node: TreeNode): void {
  if (LEAVES.has(node.type)) direct(node, 'auto')
  else if (HOLDERS.has(node.type)) direct(node, directionOf(firstWords(node)))
  else if (node.type === 'inlineCode') direct(node, 'ltr')
  node.children?.forEach(visit)
}

function direct(node: TreeNode, dir: string): void {
  const hProperties = { ...(node.data?.['hProperties'] as object | undefined), dir }
  node.data = { ...node.data, hProperties }
}

/** The first text that has a letter. */
function firstWords(node: TreeNode): string {
  if (node.type === 'text') return node.value ?? ''
  for (const child of node.children ?? []) {
    const words = firstWords(child)
    if (/\p{L}/u.test(words)) return words
  }
  return ''
}
