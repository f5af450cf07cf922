import { type Conversation, explain } from '../api.ts'
import { inForce } from '../choice.ts'
import { choose as chooseDraft, useDraft } from '../drafts.ts'
import { usePanels } from '../panels.ts'
import { useChange, useModels, useStatus } from '../queries.ts'
import { useAgents } from '../resourceQueries.ts'
import styles from './ChatHeader.module.css'
import { Choose } from './Choose.tsx'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import { HistoryIcon } from './icons.tsx'
import { Notice } from './Notice.tsx'
import { ListButton } from './Page.tsx'

interface Props {
  conversation: Conversation | null
  started: boolean
}

/** The title and the model; before the first message the model is part of the draft's choice. */
export function ChatHeader({ conversation, started }: Props) {
  const panels = usePanels()
  const models = useModels()
  const change = useChange()
  const status = useStatus()
  const agents = useAgents()
  const { choice } = useDraft(null)
  const fresh = inForce(choice, agents.data ?? [], [], status.data?.model ?? null).model
  const current = started ? (conversation?.model ?? null) : fresh
  const known = models.data?.map((one) => one.id) ?? []
  const all = useModels(models.data && current !== null && !known.includes(current) ? current : '')
  const caution = all.data?.find((one) => one.id === current)?.caution ?? null
  const choices = current !== null && !known.includes(current) ? [current, ...known] : known

  const isUnknown = (id: string) =>
    id === current ? caution !== null : (models.data?.some((one) => one.id === id && !one.known) ?? false)

  const choose = (id: string) => {
    if (conversation) change.mutate({ id: conversation.id, model: id })
    else chooseDraft({ model: id })
  }
  return (
    <>
      <header className={styles.head}>
        <ListButton />
        <h1 className={styles.title} dir="auto">
          {started ? conversation?.title || (conversation ? 'Untitled' : '') : 'New chat'}
        </h1>
        {conversation && (
          <button
            type="button"
            className={controls.icon}
            onClick={() => panels.show({ kind: 'sessions' })}
            aria-label="Sessions of this conversation"
            title="Sessions of this conversation"
            data-testid="sessions-open"
          >
            <HistoryIcon />
          </button>
        )}
        {current !== null && (
          <span className={styles.model}>
            <Choose
              plain
              value={current}
              options={choices.map((id) => ({ id, name: id, note: isUnknown(id) ? 'not in the model table' : undefined }))}
              onChange={(id) => id !== null && choose(id)}
              disabled={change.isPending || (started && conversation === null)}
              aria-label="Model"
              testId="model"
            />
          </span>
        )}
      </header>
      {caution !== null && <Notice text={caution} testId="model-caution" />}
      {change.error && <ErrorNote problem={explain(change.error)} />}
    </>
  )
}
