import { useState } from 'react'
import { api, type Difference, type RequestMap } from '../api.ts'
import styles from './ContextDrawer.module.css'
import { FirstDifference } from './FirstDifference.tsx'
import { RequestFigures } from './RequestFigures.tsx'
import { SegmentTable } from './SegmentTable.tsx'
import { WindowStrip } from './WindowStrip.tsx'

interface Props {
  map: RequestMap
  /** The first difference to the request before, if it is known. */
  difference?: Difference | null
}

/** A request from end to end: its order, its window to scale, its figures, its segments, and what is not in it. */
export function RequestDetails({ map, difference = null }: Props) {
  const [selected, setSelected] = useState<string | null>(null)
  return (
    <>
      <p className={styles.letters} data-testid="letters" aria-label="Order of the segments, in letters">
        {map.letters}
      </p>
      <WindowStrip map={map} selected={selected} onSelect={setSelected} />
      <RequestFigures map={map} />
      {map.why && <p data-testid="why">{map.why}</p>}
      {difference && !difference.after_cached_prefix && <FirstDifference difference={difference} />}
      <Notes map={map} />
      <SegmentTable map={map} selected={selected} onSelect={setSelected} />
      <Absent map={map} />
      <p className={styles.end}>
        Model {map.model}, layout {map.layout}, markers by {map.marker_policy}.{' '}
        {map.id !== null && (
          <a href={api.rawAddress(map.id)} target="_blank" rel="noopener" data-testid="raw-link">
            The request as it was sent (JSON)
          </a>
        )}
      </p>
    </>
  )
}

function Notes({ map }: { map: RequestMap }) {
  const label = (id: string | null) => map.segments.find((segment) => segment.id === id)?.label
  if (map.notes.length === 0) return null
  return (
    <section className={styles.part} aria-label="Notes" data-testid="notes">
      <h3>Notes</h3>
      <ul>
        {map.notes.map((note, index) => (
          <li key={index}>
            {label(note.segment) && <strong>{label(note.segment)}: </strong>}
            {note.text}
          </li>
        ))}
      </ul>
    </section>
  )
}

/** What the layout has a place for and this request has not, with the reason. */
function Absent({ map }: { map: RequestMap }) {
  if (map.absent.length === 0) return null
  return (
    <section className={styles.part} aria-label="Not in this request" data-testid="absent">
      <h3>Not in this request</h3>
      <dl>
        {map.absent.map(({ kind, why }) => (
          <div key={kind}>
            <dt>{kind}</dt>
            <dd>{why}</dd>
          </div>
        ))}
      </dl>
    </section>
  )
}
