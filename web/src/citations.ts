/**
 * Puts citations into Markdown without disturbing it.
 *
 * The ranges that citation packets name are replaced by a token before parsing; a remark plugin turns the tokens in
 * running text into buttons, and everywhere else (code, addresses, HTML) back into what the model wrote. A token
 * begins and ends with punctuation, as `[1]` does, so that emphasis around it is read as before; the noncharacters
 * inside it cannot come from a model, because they are removed from its text first.
 */

const OPEN = '\u2E28\uFDD0'
const CLOSE = '\uFDD0\u2E29'
const TOKEN = /\u2E28\uFDD0(\d+)\uFDD0\u2E29/g

export interface Range {
  start: number
  end: number
}

export interface Group<Item extends Range> extends Range {
  items: Item[]
}

/** Citations of one place, such as `[1, 2]`, together. */
export function grouped<Item extends Range>(citations: readonly Item[]): Group<Item>[] {
  const groups = new Map<string, Group<Item>>()
  for (const item of citations) {
    const key = `${item.start}-${item.end}`
    const group = groups.get(key) ?? { start: item.start, end: item.end, items: [] }
    group.items.push(item)
    groups.set(key, group)
  }
  return [...groups.values()]
}

/** `text` with the n-th range replaced by the n-th token. Ranges count code points; impossible ones are left out. */
export function placeTokens(text: string, ranges: readonly Range[]): { text: string; originals: string[] } {
  const points = Array.from(text.replaceAll('\uFDD0', '\uFFFD'))
  const originals = ranges.map(() => '')
  const order = ranges.map((_, index) => index).sort((one, two) => ranges[one]!.start - ranges[two]!.start)
  let placed = ''
  let at = 0
  for (const index of order) {
    const { start, end } = ranges[index]!
    if (start < at || end <= start || end > points.length) continue
    originals[index] = points.slice(start, end).join('')
    placed += points.slice(at, start).join('') + OPEN + index + CLOSE
    at = end
  }
  return { text: placed + points.slice(at).join(''), originals }
}

/** `text` with its tokens as they were written. */
export function restoreTokens(text: string, originals: readonly string[]): string {
  return text.replace(TOKEN, (_, index: string) => originals[Number(index)] ?? '')
}

/** The parts of a Markdown tree that matter here. */
interface TreeNode {
  type: string
  value?: string
  url?: string
  alt?: string | null
  title?: string | null
  children?: TreeNode[]
  data?: Record<string, unknown>
}

/** A remark plugin: tokens in text become `cite-mark` elements with a `number` property, all others are restored. */
export function remarkCitations({ originals }: { originals: readonly string[] }) {
  return (tree: unknown): void => {
    if (originals.length > 0) visit(tree as TreeNode, originals)
  }
}

function visit(node: TreeNode, originals: readonly string[]): void {
  for (const field of ['alt', 'title'] as const) {
    const value = node[field]
    if (typeof value === 'string') node[field] = restoreTokens(value, originals)
  }
  if (node.type !== 'text' && typeof node.value === 'string') node.value = restoreTokens(node.value, originals)
  if (!node.children) return
  const children: TreeNode[] = []
  for (const child of node.children) {
    if (child.type === 'text') children.push(...split(child))
    else {
      visit(child, originals)
      children.push(...unlinked(child, originals))
    }
  }
  node.children = children
}

/** A bare address swallows what touches it: there the link ends before the citation. */
function unlinked(node: TreeNode, originals: readonly string[]): TreeNode[] {
  if (node.type !== 'link' || !node.url || node.url.search(TOKEN) < 0) return [node]
  const cut = node.children?.findIndex((child) => child.type === 'cite') ?? -1
  if (cut < 0) return [{ ...node, url: restoreTokens(node.url, originals) }]
  const link = { ...node, url: node.url.slice(0, node.url.search(TOKEN)), children: node.children!.slice(0, cut) }
  return [link, ...node.children!.slice(cut)]
}

function split(node: TreeNode): TreeNode[] {
  const value = node.value ?? ''
  const parts: TreeNode[] = []
  let at = 0
  for (const match of value.matchAll(TOKEN)) {
    if (match.index > at) parts.push({ type: 'text', value: value.slice(at, match.index) })
    parts.push({
      type: 'cite',
      children: [],
      data: { hName: 'cite-mark', hProperties: { number: Number(match[1]) } },
    })
    at = match.index + match[0].length
  }
  if (at === 0) return [node]
  if (at < value.length) parts.push({ type: 'text', value: value.slice(at) })
  return parts
}

/** `text` cut in three at code points `start` and `end`. */
export function around(text: string, start: number, end: number): [string, string, string] {
  const from = unitsOf(text, start)
  const to = from + unitsOf(text.slice(from), Math.max(0, end - start))
  return [text.slice(0, from), text.slice(from, to), text.slice(to)]
}

/** How many UTF-16 units the first `points` code points of `text` take. */
export function unitsOf(text: string, points: number): number {
  let unit = 0
  for (let point = 0; point < points && unit < text.length; point += 1) {
    unit += text.codePointAt(unit)! > 0xffff ? 2 : 1
  }
  return unit
}
