import type { SystemPrompt } from '../objects.ts'
import { explain } from '../api.ts'
import { fullMoment } from '../format.ts'
import { useSaveSystemPrompt } from '../resourceQueries.ts'
import controls from './controls.module.css'
import { ErrorNote } from './ErrorNote.tsx'
import fold from './Fold.module.css'
import form from './form.module.css'
import { ChevronIcon } from './icons.tsx'
import styles from './PromptVersions.module.css'

interface Props {
  versions: SystemPrompt[]
  /** Something is written above: going back would lose it. */
  editing: boolean
}

/** All versions, newest first; going back to one makes a new version of its text. */
export function PromptVersions({ versions, editing }: Props) {
  const save = useSaveSystemPrompt()
  const newest = versions[0]
  return (
    <section className={styles.versions} aria-label="Versions">
      <h2 className={form.legend}>Versions</h2>
      {save.error && <ErrorNote problem={explain(save.error)} />}
      <ul className={form.list}>
        {versions.map((one) => (
          <li key={one.version} data-testid="prompt-version">
            <details className={fold.fold}>
              <summary>
                <ChevronIcon size={14} />
                <span className={styles.number}>{nameOf(one)}</span>
                <span className={fold.gist}>{[one.created_at && fullMoment(one.created_at), one.note].filter(Boolean).join(' · ')}</span>
                {one === newest && <span className={fold.state}>in use</span>}
              </summary>
              <div className={fold.prose} dir="auto">
                {one.text}
              </div>
              {one !== newest && (
                <button
                  type="button"
                  className={controls.plain}
                  disabled={save.isPending || editing || one.text === newest?.text}
                  title={editing ? 'Save or discard your changes first.' : undefined}
                  onClick={() => save.mutate({ text: one.text, note: `Back to ${nameOf(one).toLowerCase()}` })}
                  data-testid="prompt-back"
                >
                  {one.text === newest?.text ? 'The same text as the newest' : 'Go back to this one'}
                </button>
              )}
            </details>
          </li>
        ))}
      </ul>
    </section>
  )
}

function nameOf({ version }: SystemPrompt): string {
  return version === 0 ? 'As shipped' : `Version ${version}`
}
