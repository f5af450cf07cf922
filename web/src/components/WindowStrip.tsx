import type { RequestMap, Segment } from '../api.ts'
import { exact, tokens } from '../format.ts'
import { zoneColour, zoneName, zonesOf } from '../zones.ts'
import styles from './WindowStrip.module.css'

interface Props {
  map: RequestMap
  selected: string | null
  onSelect: (id: string | null) => void
}

/** The window drawn to scale: zones above, what the cache gave below, ticks where markers stand. */
export function WindowStrip({ map, selected, onSelect }: Props) {
  const total = map.segments.reduce((sum, segment) => sum + segment.tokens, 0)
  const measured = map.usage !== null
  return (
    <div className={styles.strip}>
      <div
        className={styles.window}
        role="img"
        aria-label={`The window to scale, ${exact(total)} tokens in ${map.segments.length} segments; the table below has the figures`}
        onMouseLeave={() => onSelect(null)}
      >
        {map.segments.map((segment) => (
          <div
            key={segment.id}
            className={styles.segment}
            style={{ flexGrow: Math.max(segment.tokens, total / 500) }}
            data-selected={segment.id === selected}
            onMouseEnter={() => onSelect(segment.id)}
            title={`${segment.label}: ${exact(segment.tokens)} tokens`}
          >
            <span className={styles.zone} style={{ background: zoneColour(segment.zone) }} />
            <CacheShare segment={segment} />
            {segment.markers.length > 0 && <span className={styles.marker} />}
          </div>
        ))}
      </div>
      <ul className={styles.legend}>
        {zonesOf(map.segments).map((zone) => (
          <li key={zone}>
            <i style={{ background: zoneColour(zone) }} />
            {zoneName(zone)} {tokens(sum(map.segments, zone))}
          </li>
        ))}
      </ul>
      <ul className={styles.legend}>
        <li>
          <i style={{ background: 'var(--cache-read)' }} />
          {measured ? 'Read from the cache' : 'Expected from the cache'}
        </li>
        <li>
          <i style={{ background: 'var(--cache-written)' }} />
          Written to it
        </li>
        <li>
          <i style={{ background: 'var(--cache-fresh)' }} />
          Fresh
        </li>
        <li>
          <i className={styles.tick} />
          Cache marker
        </li>
      </ul>
    </div>
  )
}

function sum(segments: Segment[], zone: string): number {
  return segments.reduce((total, segment) => total + (segment.zone === zone ? segment.tokens : 0), 0)
}

function CacheShare({ segment }: { segment: Segment }) {
  return (
    <span className={styles.cache}>
      <i style={{ flexGrow: segment.read, background: 'var(--cache-read)' }} />
      <i style={{ flexGrow: segment.written, background: 'var(--cache-written)' }} />
      <i style={{ flexGrow: segment.fresh, background: 'var(--cache-fresh)' }} />
    </span>
  )
}
