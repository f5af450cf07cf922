/** What a tab keeps over a reload. Where the browser refuses to keep anything, nothing is kept. */

const PREFIX = 'lamella.'

export function remember(name: string, values: readonly string[]): void {
  try {
    if (values.length > 0) sessionStorage.setItem(PREFIX + name, JSON.stringify(values))
    else sessionStorage.removeItem(PREFIX + name)
  } catch {
    // Not allowed, or full.
  }
}

export function remembered(name: string): string[] {
  try {
    const found: unknown = JSON.parse(sessionStorage.getItem(PREFIX + name) ?? '[]')
    return Array.isArray(found) ? found.filter((one) => typeof one === 'string') : []
  } catch {
    return []
  }
}
