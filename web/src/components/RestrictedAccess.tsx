import type { KnowledgeBase } from '../objects.ts'
import { useState } from 'react'
import controls from './controls.module.css'
import form from './form.module.css'
import styles from './Restricted.module.css'
import { RestrictedLevelForm } from './RestrictedLevelForm.tsx'
import { RestrictedPreview } from './RestrictedPreview.tsx'
import { RestrictedReadiness } from './RestrictedReadiness.tsx'
import { RestrictedTerms } from './RestrictedTerms.tsx'
import { RestrictedUses } from './RestrictedUses.tsx'

const PARTS = [
  { name: 'ready', label: 'Before sharing' },
  { name: 'level', label: 'Level' },
  { name: 'terms', label: 'Names' },
  { name: 'preview', label: 'Preview' },
  { name: 'uses', label: 'What went out' },
] as const

type Part = (typeof PARTS)[number]['name']

/** For the owner of a base: how it answers readers who may use it and not read it, and what they got. */
export function RestrictedAccess({ base }: { base: KnowledgeBase }) {
  const [part, setPart] = useState<Part>('ready')
  return (
    <section aria-label="Restricted access" className={styles.part} data-testid="restricted">
      <p className={form.quiet}>
        Restricted readers ask questions and get answers in general words: no sentence, name, figure or title of a document.
      </p>
      <div className={styles.parts} role="group" aria-label="Restricted access">
        {PARTS.map(({ name, label }) => (
          <button
            key={name}
            type="button"
            className={name === part ? controls.strong : controls.plain}
            aria-pressed={name === part}
            onClick={() => setPart(name)}
            data-testid={`restricted-${name}`}
          >
            {label}
          </button>
        ))}
      </div>
      {part === 'ready' && <RestrictedReadiness base={base} />}
      {/* What was written, and what the second model was asked, stays while another part is looked at. */}
      <div hidden={part !== 'level'}>
        <RestrictedLevelForm base={base} />
      </div>
      {part === 'terms' && <RestrictedTerms base={base} />}
      <div hidden={part !== 'preview'}>
        <RestrictedPreview base={base} />
      </div>
      {part === 'uses' && <RestrictedUses base={base} />}
    </section>
  )
}
