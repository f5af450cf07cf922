import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { api, type RequestMap } from '../api.ts'
import { begun, type Draft, filesOf, obstacle, timezone, useDraft } from '../drafts.ts'
import styles from './ContextDrawer.module.css'
import { QueryError } from './ErrorNote.tsx'
import { Panel } from './Panel.tsx'
import { RequestDetails } from './RequestDetails.tsx'
import { useChanging, useConversation } from '../queries.ts'

const CALM_MS = 400

/** What the message in the composer would be sent with. Nothing is sent. */
export default function PreviewDrawer({ conversation, onClose }: { conversation: string | null; onClose: () => void }) {
  const draft = useDraft(conversation)
  const calm = useCalm(draft)
  const details = useConversation(conversation)
  const changing = useChanging()
  const wait = calm.text.trim() === '' ? 'Write a message to see the request that it would make.' : obstacle(calm)
  const value = { text: calm.text, file_ids: filesOf(calm).map((file) => file.id), timezone: timezone() }
  const preview = useQuery({
    // What was chosen for the conversation counts too: its last change stands for that.
    queryKey: ['preview', conversation, value, calm.choice, details.data?.updated_at],
    queryFn: async ({ signal }) => {
      const conversation_id = conversation ?? (await begun())
      return withSteadyIds(await api.preview({ conversation_id, ...value }, signal))
    },
    enabled: wait === null && !changing,
    placeholderData: (old) => old,
    gcTime: 0,
  })
  return (
    <Panel title="What would be sent" detail="Nothing has been sent yet." testId="preview" onClose={onClose}>
      <div className={styles.body} aria-busy={preview.isFetching}>
        {wait !== null && <p className={styles.quiet}>{wait}</p>}
        {wait === null && preview.error && <QueryError error={preview.error} />}
        {wait === null && preview.isLoading && <p className={styles.quiet}>Building the request…</p>}
        {wait === null && preview.data && !preview.error && <RequestDetails map={preview.data} />}
      </div>
    </Panel>
  )
}

/** The same ids each time: a message that was not sent has a new turn in every preview, and what was opened stays open. */
export function withSteadyIds(map: RequestMap): RequestMap {
  const turn = map.segments.findLast((segment) => segment.kind === 'user')?.id.split('/')[0]
  const steady = (id: string) => (turn && id.startsWith(`${turn}/`) ? `unsent${id.slice(turn.length)}` : id)
  return {
    ...map,
    segments: map.segments.map((segment) => ({ ...segment, id: steady(segment.id) })),
    notes: map.notes.map((note) => ({ ...note, segment: note.segment && steady(note.segment) })),
  }
}

/** The draft as it was when the typing last paused. */
function useCalm(draft: Draft): Draft {
  const [calm, setCalm] = useState(draft)
  useEffect(() => {
    const timer = setTimeout(() => setCalm(draft), CALM_MS)
    return () => clearTimeout(timer)
  }, [draft])
  return calm
}
