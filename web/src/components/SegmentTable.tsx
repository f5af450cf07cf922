import { Fragment, useState } from 'react'
import type { RequestMap, Segment } from '../api.ts'
import { exact } from '../format.ts'
import { zoneColour, zoneName } from '../zones.ts'
import { ChevronIcon } from './icons.tsx'
import styles from './SegmentTable.module.css'

interface Props {
  map: RequestMap
  selected: string | null
  onSelect: (id: string | null) => void
}

/** The segments in the order of the request; each opens to its text and the reason for its markers. */
export function SegmentTable({ map, selected, onSelect }: Props) {
  const [open, setOpen] = useState<ReadonlySet<string>>(new Set())
  const toggle = (id: string) => setOpen((old) => (old.has(id) ? new Set([...old].filter((one) => one !== id)) : new Set(old).add(id)))
  const estimates = map.segments.filter(isEstimate).length
  const total = (pick: (segment: Segment) => number) => map.segments.reduce((sum, segment) => sum + pick(segment), 0)
  return (
    <div className={styles.scroll} tabIndex={0} role="group" aria-label="Segments of the request">
      <table className={styles.table} data-testid="segments">
        <thead>
          <tr>
            <th scope="col">Segment</th>
            <th scope="col">Zone</th>
            <th scope="col">Tokens</th>
            <th scope="col">Read</th>
            <th scope="col">Written</th>
            <th scope="col">Fresh</th>
            <th scope="col">Markers</th>
            <th scope="col">Owner, source</th>
          </tr>
        </thead>
        <tbody>
          {map.segments.map((segment) => (
            <Fragment key={segment.id}>
              <Row
                segment={segment}
                open={open.has(segment.id)}
                selected={segment.id === selected}
                onToggle={() => toggle(segment.id)}
                onHover={(inside) => onSelect(inside ? segment.id : null)}
              />
              {open.has(segment.id) && <Details segment={segment} />}
            </Fragment>
          ))}
        </tbody>
        <tfoot>
          <tr>
            <th scope="row">Total</th>
            <td />
            <td>{exact(total((segment) => segment.tokens))}</td>
            <td>{exact(total((segment) => segment.read))}</td>
            <td>{exact(total((segment) => segment.written))}</td>
            <td>{exact(total((segment) => segment.fresh))}</td>
            <td />
            <td />
          </tr>
        </tfoot>
      </table>
      <p className={styles.note}>
        {estimates === map.segments.length
          ? '≈ is an estimate, counted on this machine; the provider has not measured this request.'
          : 'The provider measures a request as a whole; its figure is spread over the segments by their size.'}
        {estimates > 0 && estimates < map.segments.length && ' ≈ is an estimate, counted on this machine.'}
      </p>
    </div>
  )
}

interface RowProps {
  segment: Segment
  open: boolean
  selected: boolean
  onToggle: () => void
  onHover: (inside: boolean) => void
}

function Row({ segment, open, selected, onToggle, onHover }: RowProps) {
  return (
    <tr
      data-testid="segment"
      data-letters={segment.letters}
      data-zone={segment.zone}
      data-selected={selected}
      onMouseEnter={() => onHover(true)}
      onMouseLeave={() => onHover(false)}
    >
      <th scope="row">
        <button type="button" className={styles.toggle} aria-expanded={open} onClick={onToggle}>
          <ChevronIcon size={12} />
          <code>{segment.letters}</code>
          <span>
            {segment.label}
            <small>{segment.kind}</small>
          </span>
        </button>
      </th>
      <td>
        <span className={styles.zone}>
          <i style={{ background: zoneColour(segment.zone) }} />
          {zoneName(segment.zone)}
        </span>
      </td>
      <td>
        {isEstimate(segment) && <abbr title="Estimate">≈ </abbr>}
        {exact(segment.tokens)}
      </td>
      <Count value={segment.read} />
      <Count value={segment.written} />
      <Count value={segment.fresh} />
      <td>{segment.markers.map((marker) => marker.ttl).join(', ')}</td>
      <td>
        {segment.owner}
        <small title={segment.source}>{segment.source}</small>
      </td>
    </tr>
  )
}

function isEstimate(segment: Segment): boolean {
  return !segment.measured
}

function Count({ value }: { value: number }) {
  return <td className={value === 0 ? styles.none : undefined}>{exact(value)}</td>
}

function Details({ segment }: { segment: Segment }) {
  return (
    <tr className={styles.details}>
      <td colSpan={8}>
        <p>
          From {segment.source}; stays for the {segment.lifetime}; {segment.blocks === 1 ? '1 block' : `${segment.blocks} blocks`} on
          the wire.
        </p>
        {segment.markers.map((marker, index) => (
          <p key={index}>
            Marker for {marker.ttl}: {marker.why}
          </p>
        ))}
        <pre tabIndex={0} dir="auto">
          {segment.text_preview}
        </pre>
      </td>
    </tr>
  )
}
