import type { Agent } from '../objects.ts'
import { type FormEvent, useState } from 'react'
import { useBases } from '../access.ts'
import { efforts } from '../choice.ts'
import { problemAt, problemElsewhere } from '../fields.ts'
import { useBound } from '../knowledge.ts'
import { useLeaving } from '../unsaved.ts'
import { useModels } from '../queries.ts'
import { useLayouts, useRemoveAgent, useSaveAgent } from '../resourceQueries.ts'
import type { AgentValue } from '../resources.ts'
import { Choose } from './Choose.tsx'
import { ErrorNote, QueryError } from './ErrorNote.tsx'
import { Field, useFirstWrong } from './Field.tsx'
import { FormActions } from './FormActions.tsx'
import form from './form.module.css'
import { BaseChecks } from './KnowledgePick.tsx'
import { TextField } from './TextField.tsx'
import { ToolsField } from './ToolsField.tsx'

const FIELDS = ['name', 'prompt', 'reminder', 'replaces_system', 'tools', 'model', 'layout', 'fallback_model', 'thinking_effort'] as const

const blank: AgentValue = {
  name: '',
  prompt: '',
  reminder: '',
  replaces_system: false,
  tools: null,
  model: null,
  layout: null,
  fallback_model: null,
  thinking_effort: null,
}

export function valueOf(agent: Agent | null): AgentValue {
  const source = agent ?? blank
  return Object.fromEntries(FIELDS.map((field) => [field, source[field]])) as unknown as AgentValue
}

/** One agent, as soon as it is known which bases its conversations search. */
export function AgentForm(props: { agent: Agent | null; onDone: () => void }) {
  const { agent } = props
  const bound = useBound(agent && { kind: 'agents', id: agent.id })
  if (bound.error) return <QueryError error={bound.error} />
  if (agent && !bound.data) return <p className={form.quiet}>Loading…</p>
  return <LoadedForm {...props} bound={bound.data ?? []} />
}

/** What was opened is compared with what is written, so that nothing is lost without a question. */
function LoadedForm({ agent, bound, onDone }: { agent: Agent | null; bound: readonly string[]; onDone: () => void }) {
  const [first] = useState(() => valueOf(agent))
  const [value, setValue] = useState(first)
  const [searched] = useState(bound)
  const [bases, setBases] = useState(searched)
  const known = useBases().data ?? []
  const set = (patch: Partial<AgentValue>) => setValue((old) => ({ ...old, ...patch }))
  const save = useSaveAgent(agent?.id ?? null)
  const element = useFirstWrong(save.error)
  const remove = useRemoveAgent()
  const ended = save.isSuccess || remove.isSuccess
  const rebound = JSON.stringify(bases) !== JSON.stringify(searched)
  const dirty = !ended && (rebound || JSON.stringify(value) !== JSON.stringify(first))
  const { leave } = useLeaving(dirty, onDone)
  const problem = problemElsewhere(save.error, FIELDS)

  const submit = (event: FormEvent) => {
    event.preventDefault()
    save.mutate({ value, bases: rebound ? bases : null }, { onSuccess: leave })
  }
  return (
    <form ref={element} className={form.form} onSubmit={submit} noValidate data-testid="agent-form">
      {problem && <ErrorNote problem={problem} />}
      {remove.error && <QueryError error={remove.error} />}
      <TextField name="name" label="Name" value={value.name} error={save.error} onChange={(name) => set({ name })} autoFocus={!agent} />
      <TextField
        name="prompt"
        label="Prompt"
        hint="May be empty, unless it replaces the system prompt."
        rows={7}
        value={value.prompt}
        error={save.error}
        onChange={(prompt) => set({ prompt })}
      />
      <label className={form.check}>
        <input
          type="checkbox"
          name="replaces_system"
          checked={value.replaces_system}
          onChange={(event) => set({ replaces_system: event.target.checked })}
        />
        Replaces the system prompt
      </label>
      <TextField
        name="reminder"
        label="Reminder"
        hint="A short text that comes last in a request, after everything else. May be empty."
        rows={2}
        value={value.reminder}
        error={save.error}
        onChange={(reminder) => set({ reminder })}
      />
      <ToolsField value={value.tools} problem={problemAt(save.error, 'tools')} onChange={(tools) => set({ tools })} />
      {(known.length > 0 || bases.length > 0) && (
        <fieldset className={form.group} data-testid="agent-knowledge">
          <legend className={form.legend}>Knowledge</legend>
          <BaseChecks bases={known} chosen={bases} onChange={setBases} />
          <p className={form.hint}>Its conversations search these in addition to their own.</p>
        </fieldset>
      )}
      <Defaults value={value} error={save.error} onChange={set} />
      <FormActions
        save={agent ? 'Save' : 'Create the agent'}
        saving={save.isPending}
        dirty={dirty}
        onCancel={leave}
        remove={
          agent
            ? {
                question: 'Delete this agent?',
                detail: `“${agent.name}” is removed for good. Conversations with it stay.`,
                onConfirm: () => remove.mutate(agent.id, { onSuccess: leave }),
              }
            : undefined
        }
      />
    </form>
  )
}

interface DefaultsProps {
  value: AgentValue
  error: unknown
  onChange: (patch: Partial<AgentValue>) => void
}

/** Model, layout and thinking effort of its conversations. */
function Defaults({ value, error, onChange }: DefaultsProps) {
  const models = useModels().data?.map(({ id }) => ({ id, name: id })) ?? []
  const layouts = useLayouts().data ?? []
  const layout = layouts.find((one) => one.name === value.layout)
  return (
    <div className={form.pair}>
      <Field label="Model" hint="What its conversations begin with." problem={problemAt(error, 'model')}>
        {(control) => (
          <Choose
            {...control}
            value={value.model}
            none="The default"
            options={models}
            onChange={(model) => onChange({ model })}
          />
        )}
      </Field>
      <Field label="Layout" hint={layout?.description ?? 'The order of the window.'} problem={problemAt(error, 'layout')}>
        {(control) => (
          <Choose
            {...control}
            value={value.layout}
            none="The default"
            options={layouts.map(({ name, description }) => ({ id: name, name, note: description }))}
            onChange={(layout) => onChange({ layout })}
          />
        )}
      </Field>
      <Field label="If it fails" hint="Answers where the model fails before it has said anything." problem={problemAt(error, 'fallback_model')}>
        {(control) => (
          <Choose
            {...control}
            value={value.fallback_model}
            none="As the server is set"
            options={models}
            onChange={(fallback_model) => onChange({ fallback_model })}
          />
        )}
      </Field>
      <Field label="Thinking" hint="Of its turns, where neither the message nor the conversation says." problem={problemAt(error, 'thinking_effort')}>
        {(control) => (
          <Choose
            {...control}
            value={value.thinking_effort}
            none="The default"
            options={efforts.map((id) => ({ id, name: id }))}
            onChange={(thinking_effort) => onChange({ thinking_effort })}
          />
        )}
      </Field>
    </div>
  )
}
