import { choices, prefer, type Preferences, usePreferences } from '../preferences.ts'
import { Choose } from './Choose.tsx'
import { Field } from './Field.tsx'
import form from './form.module.css'

const NAMES: { [Name in keyof Preferences]: { label: string; names: Record<Preferences[Name], string> } } = {
  theme: { label: 'Theme', names: { system: 'As the system', light: 'Light', dark: 'Dark' } },
  text: { label: 'Text size', names: { normal: 'Normal', small: 'Small', large: 'Large' } },
  density: { label: 'Density', names: { comfortable: 'Comfortable', compact: 'Compact' } },
  send: { label: 'Send with', names: { enter: 'Enter', modifier: 'Ctrl/⌘ + Enter' } },
}

/** How the page looks and works in this browser. */
export function PreferenceSettings() {
  return (
    <section aria-label="Preferences" className={form.form} data-testid="preferences">
      <h2 className={form.title}>Preferences</h2>
      <div className={form.pair}>
        <One name="theme" />
        <One name="text" />
        <One name="density" />
        <One name="send" />
      </div>
      <p className={form.hint}>They are kept in this browser.</p>
    </section>
  )
}

function One<Name extends keyof Preferences>({ name }: { name: Name }) {
  const value = usePreferences()[name]
  const { label, names } = NAMES[name]
  const known = choices[name] as unknown as readonly Preferences[Name][]
  return (
    <Field label={label}>
      {(control) => (
        <Choose
          {...control}
          value={value}
          options={known.map((id) => ({ id, name: names[id] }))}
          onChange={(next) => next && prefer({ [name]: next })}
        />
      )}
    </Field>
  )
}
