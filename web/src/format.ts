/** Numbers, sizes and times as the page writes them. */

/** 812, 4.1k, 41k, 1.2M. */
export function tokens(count: number): string {
  if (count < 1000) return String(Math.round(count))
  if (count < 9950) return `${(count / 1000).toFixed(1).replace('.0', '')}k`
  if (count < 999_500) return `${Math.round(count / 1000)}k`
  return `${(count / 1_000_000).toFixed(1).replace('.0', '')}M`
}

/** 41,238. */
export function exact(count: number): string {
  return Math.round(count).toLocaleString('en-US')
}

/** 92 %. A share that is neither nothing nor all never reads 0 or 100. */
export function percent(share: number): string {
  const rounded = Math.round(share * 100)
  if (rounded === 0 && share > 0) return '< 1 %'
  if (rounded === 100 && share < 1) return '> 99 %'
  return `${rounded} %`
}

/** $0.0123: as many digits as say something. */
export function dollars(cost: number): string {
  if (cost === 0) return '$0'
  if (cost >= 1) return `$${cost.toFixed(2)}`
  if (cost >= 0.01) return `$${cost.toFixed(4)}`
  return cost < 0.000001 ? '< $0.000001' : `$${cost.toFixed(6).replace(/0+$/, '')}`
}

/** ≈ 620: the mark of a figure that no provider told. */
export function about(figure: string, estimated: boolean | undefined): string {
  return estimated ? `≈ ${figure}` : figure
}

/** 312 B, 41 kB, 2.4 MB. */
export function bytes(size: number): string {
  if (size < 1000) return `${size} B`
  if (size < 999_500) return `${Math.round(size / 1000)} kB`
  return `${(size / 1_000_000).toFixed(1).replace('.0', '')} MB`
}

/** 40 ms, 2.4 s, 3 min 5 s. */
export function duration(seconds: number): string {
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`
  if (seconds < 59.95) return `${seconds.toFixed(1).replace('.0', '')} s`
  const whole = Math.round(seconds)
  return `${Math.floor(whole / 60)} min ${whole % 60} s`
}

const time = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' })
const day = new Intl.DateTimeFormat(undefined, { day: 'numeric', month: 'short' })
const whole = new Intl.DateTimeFormat(undefined, { dateStyle: 'long', timeStyle: 'short' })

/** The clock time today, the day before that. */
export function moment(iso: string, now: Date = new Date()): string {
  const at = new Date(iso)
  if (Number.isNaN(at.getTime())) return ''
  return at.toDateString() === now.toDateString() ? time.format(at) : `${day.format(at)}, ${time.format(at)}`
}

/** Day and time in full, for a tooltip. */
export function fullMoment(iso: string): string {
  const at = new Date(iso)
  return Number.isNaN(at.getTime()) ? '' : whole.format(at)
}

const DAY = 86_400_000
const month = new Intl.DateTimeFormat(undefined, { month: 'long', year: 'numeric' })

/** Things in groups by the day they were changed, in the order they came: Today, Yesterday, then by week and month. */
export function byDate<Thing extends { updated_at: string }>(things: readonly Thing[], now: Date): { name: string; those: Thing[] }[] {
  const midnight = new Date(now).setHours(0, 0, 0, 0)
  const named = (iso: string) => {
    const at = new Date(iso)
    // Rounded: a day on which the clocks change has 23 or 25 hours.
    const days = Math.round((midnight - new Date(at).setHours(0, 0, 0, 0)) / DAY)
    if (days <= 0) return 'Today'
    if (days === 1) return 'Yesterday'
    if (days <= 7) return 'Previous 7 days'
    return days <= 30 ? 'Previous 30 days' : month.format(at)
  }
  const groups = new Map<string, Thing[]>()
  for (const one of things) {
    const name = named(one.updated_at)
    groups.set(name, [...(groups.get(name) ?? []), one])
  }
  return [...groups].map(([name, those]) => ({ name, those }))
}
