import type { CitationPacket } from '../objects.ts'
import { usePanels } from '../panels.ts'
import type { Source } from '../turn.ts'
import styles from './CitationButton.module.css'

/** The number of a document behind a statement; opens the passage. */
export function CitationButton({ citation, source }: { citation: CitationPacket; source: Source | undefined }) {
  const panels = usePanels()
  const title = source?.title ?? `Document ${citation.document}`
  const place = citation.page === null || citation.page === undefined ? title : `${title}, page ${citation.page}`
  const open = () =>
    panels.show({
      kind: 'passage',
      fileId: citation.file_id ?? source?.fileId ?? null,
      url: source?.url ?? null,
      title,
      document: citation.document,
      start: citation.passage_start ?? null,
      end: citation.passage_end ?? null,
      page: citation.page ?? null,
    })
  return (
    <button
      type="button"
      className={styles.citation}
      onClick={open}
      title={place}
      aria-label={`Source ${citation.document}: ${place}`}
      data-testid="citation"
    >
      {citation.document}
    </button>
  )
}
