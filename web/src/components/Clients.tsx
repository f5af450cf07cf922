import { useState } from 'react'
import { ApiError, explain } from '../api.ts'
import { useLine, useLines, useLive } from '../lines.ts'
import { useFork, useRemove } from '../queries.ts'
import { go, goToLine, pathOfLine } from '../route.ts'
import { BaseUrls } from './BaseUrls.tsx'
import styles from './Clients.module.css'
import { Confirm } from './Confirm.tsx'
import controls from './controls.module.css'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { TrashIcon } from './icons.tsx'
import { LineList } from './LineList.tsx'
import { LineView } from './LineView.tsx'
import { MoreButton } from './MoreButton.tsx'
import { Page } from './Page.tsx'

/** The conversations of other programs that go through this server: the list of them, or `line`. */
export default function Clients({ line }: { line: string | null }) {
  useLive()
  return line === null ? <All /> : <One key={line} id={line} />
}

function All() {
  const list = useLines()
  const lines = list.data?.pages.flatMap((page) => page.data) ?? []
  return (
    <Page title="Clients" testId="clients">
      {list.error && (
        <QueryError error={list.error}>
          <button type="button" className={controls.link} onClick={() => void list.refetch()}>
            Try again
          </button>
        </QueryError>
      )}
      {list.isLoading && <p className={styles.quiet}>Loading the list…</p>}
      {list.data && lines.length === 0 && (
        <section className={styles.empty} aria-label="Point a client here" data-testid="clients-empty">
          <h2>No client has sent anything yet</h2>
          <p>
            Set the base URL of a program that speaks Anthropic’s or OpenAI’s API to this server. It works as before. Here
            you see each of its requests: what was read from the cache, what it cost, and what broke the cache.
          </p>
          <BaseUrls />
        </section>
      )}
      {lines.length > 0 && (
        <>
          <details className={styles.fold}>
            <summary>Point a client here</summary>
            <BaseUrls />
          </details>
          <LineList lines={lines} />
        </>
      )}
      <MoreButton list={list}>
        Show older lines
      </MoreButton>
    </Page>
  )
}

function One({ id }: { id: string }) {
  const line = useLine(id)
  const remove = useRemove()
  const fork = useFork()
  // A conversation with an agent of this server is one that goes on as it is.
  const isOurs = line.data?.label.startsWith('agent:') ?? false
  const [asking, setAsking] = useState(false)
  const title = line.data?.title || 'Untitled'
  return (
    <Page
      title={line.data ? title : 'Clients'}
      testId="clients"
      back={{ path: pathOfLine(null), label: 'All clients', testId: 'line-back' }}
      actions={
        line.data && (
          <>
            <button
              type="button"
              className={controls.plain}
              onClick={() => (isOurs ? go(id) : fork.mutate({ line: id }, { onSuccess: (made) => go(made.id) }))}
              disabled={fork.isPending}
              title="Begin a conversation here with all that was said"
              data-testid="line-continue"
            >
              Continue here
            </button>
            <button
              type="button"
              className={controls.icon}
              onClick={() => setAsking(true)}
              disabled={remove.isPending}
              aria-label={`Delete ${title}`}
              title="Delete"
              data-testid="line-delete"
            >
              <TrashIcon />
            </button>
          </>
        )
      }
    >
      {remove.error && <ErrorNote problem={explain(remove.error)} />}
      {fork.error && <ErrorNote problem={explain(fork.error)} />}
      {line.error && (
        <QueryError error={line.error}>
          {line.error instanceof ApiError && line.error.status === 404 ? (
            <button type="button" className={controls.link} onClick={() => goToLine(null, true)}>
              Show all clients
            </button>
          ) : (
            <button type="button" className={controls.link} onClick={() => void line.refetch()}>
              Try again
            </button>
          )}
        </QueryError>
      )}
      {line.data && !line.error && <LineView line={line.data} />}
      {asking && (
        <Confirm
          question="Delete this conversation?"
          detail={`The requests of “${title}” are removed here for good. The client keeps what it has.`}
          action="Delete"
          onConfirm={() => {
            setAsking(false)
            remove.mutate(id, { onSuccess: () => goToLine(null, true) })
          }}
          onCancel={() => setAsking(false)}
        />
      )}
    </Page>
  )
}
