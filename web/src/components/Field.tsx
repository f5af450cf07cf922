import { type ReactNode, type RefObject, useEffect, useId, useRef } from 'react'
import type { Problem } from '../fields.ts'
import form from './form.module.css'

/** What a control has to carry so that its label, its hint and its problem belong to it. */
export interface ControlProps {
  id: string
  className: string | undefined
  'aria-describedby': string | undefined
  'aria-invalid': boolean
}

interface Props {
  label: string
  hint?: ReactNode
  problem?: Problem | null
  children: (control: ControlProps) => ReactNode
}

/** A labelled control; what is wrong with it stands under it. */
export function Field({ label, hint, problem, children }: Props) {
  const id = useId()
  const described = [problem && `${id}-problem`, hint && `${id}-hint`].filter(Boolean).join(' ')
  return (
    <div className={form.field}>
      <label htmlFor={id}>{label}</label>
      {children({
        id,
        className: form.control,
        'aria-describedby': described || undefined,
        'aria-invalid': Boolean(problem),
      })}
      {problem && <FieldProblem id={`${id}-problem`} problem={problem} />}
      {hint && (
        <p id={`${id}-hint`} className={form.hint}>
          {hint}
        </p>
      )}
    </div>
  )
}

/** What the server refused about a field, and what to do. */
export function FieldProblem({ id, problem }: { id?: string; problem: Problem }) {
  return (
    <p id={id} className={form.error} role="alert" data-testid="field-problem">
      <strong>{problem.message}</strong> {problem.hint}
    </p>
  )
}

/** For a form: when it was refused, the first field that is wrong gets the focus. */
export function useFirstWrong(error: unknown): RefObject<HTMLFormElement | null> {
  const element = useRef<HTMLFormElement>(null)
  useEffect(() => {
    if (error) element.current?.querySelector<HTMLElement>('[aria-invalid=true]')?.focus()
  }, [error])
  return element
}
