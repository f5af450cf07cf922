import type { ShownTurn } from '../turn.ts'
import { useEffect, useState } from 'react'
import type { ModelRequest } from '../api.ts'
import { about, dollars, moment } from '../format.ts'
import { useDiff } from '../lines.ts'
import type { ContextPanel } from '../panels.ts'
import { inOrder, useMap, useRequests, useTurnList } from '../queries.ts'
import styles from './ContextDrawer.module.css'
import { QueryError } from './ErrorNote.tsx'
import { Panel } from './Panel.tsx'
import { Pick } from './Pick.tsx'
import { RequestDetails } from './RequestDetails.tsx'

interface Props {
  conversation: string
  at: ContextPanel
  onClose: () => void
}

/** What one request gave the model: every segment in order, where it was cached, and what it cost. */
export default function ContextDrawer({ conversation, at, onClose }: Props) {
  const [{ turn, request }, setChoice] = useState<Pick<ContextPanel, 'turn' | 'request'>>(at)
  useEffect(() => setChoice(at), [at])
  const turns = inOrder(useTurnList(conversation).data)
  const requests = useRequests(turn)
  const chosen = request ?? requests.data?.at(-1)?.id ?? null
  const diff = useDiff(chosen)
  const map = useMap(chosen)
  const error = requests.error ?? map.error

  return (
    <Panel title="What the model sees" testId="context-drawer" onClose={onClose}>
      <div className={styles.body}>
        <div className={styles.pickers}>
          <Pick
            label="Message"
            name="turn"
            value={turn}
            options={turns.map((one, index) => ({ id: one.id, name: turnName(one, index) }))}
            onChange={(next) => setChoice({ turn: next })}
          />
          <Pick
            label="Request"
            name="request"
            value={chosen}
            options={requests.data?.map((one) => ({ id: one.id, name: requestName(one) })) ?? []}
            onChange={(next) => setChoice({ turn, ...(next ? { request: next } : {}) })}
          />
        </div>
        {error && <QueryError error={error} />}
        {(requests.isLoading || map.isLoading) && <p className={styles.quiet}>Loading the request…</p>}
        {requests.data?.length === 0 && <p className={styles.quiet}>No request was sent for this message.</p>}
        {map.data && <RequestDetails map={map.data} difference={diff.data?.difference ?? null} />}
      </div>
    </Panel>
  )
}

function turnName(turn: ShownTurn, index: number): string {
  const text = turn.text.replace(/\s+/g, ' ').trim()
  return `${index + 1}. ${text.length > 60 ? `${text.slice(0, 60)}…` : text}`
}

function requestName(request: ModelRequest): string {
  const parts = [`Step ${request.step + 1}`, request.purpose, moment(request.at)]
  if (request.cost !== null) parts.push(about(dollars(request.cost), request.usage?.estimated))
  if (request.error) parts.push('failed')
  return parts.filter(Boolean).join(' · ')
}
