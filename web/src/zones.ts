/** The zones of a window and the colours that stand for them; the name is always written beside. */

const colours: Record<string, string> = {
  fixed: 'var(--zone-fixed)',
  history: 'var(--zone-history)',
  travelling: 'var(--zone-travelling)',
  turn: 'var(--zone-turn)',
  trailing: 'var(--zone-trailing)',
}

export function zoneColour(zone: string): string {
  return colours[zone.toLowerCase()] ?? 'var(--zone-other)'
}

/** Zones in the order in which they first appear. */
export function zonesOf(segments: readonly { zone: string }[]): string[] {
  return [...new Set(segments.map((segment) => segment.zone))]
}

export function zoneName(zone: string): string {
  return zone.charAt(0).toUpperCase() + zone.slice(1).toLowerCase()
}
