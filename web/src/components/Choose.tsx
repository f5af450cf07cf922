import { Select } from '@base-ui/react/select'
import { layers } from '../layers.ts'
import styles from './Choose.module.css'
import { CheckIcon, DownChevronIcon } from './icons.tsx'
import menu from './Menu.module.css'

export interface Option<Value extends string = string> {
  id: Value
  name: string
  /** What it does, under its name. */
  note?: string | undefined
  disabled?: boolean
}

interface Props<Value extends string> {
  value: Value | null
  options: readonly Option<Value>[]
  /** What stands for no value; left out if there has to be one. */
  none?: string | undefined
  onChange: (value: Value | null) => void
  /** Looks like text until it is pointed at: for choices in a line. */
  plain?: boolean
  disabled?: boolean
  testId?: string | undefined
  id?: string
  'aria-label'?: string
  'aria-labelledby'?: string
  'aria-describedby'?: string | undefined
  'aria-invalid'?: boolean
}

/** One choice of several, in a list that opens. A value that is none of the options, because it was removed, is still shown. */
export function Choose<Value extends string>({ value, options, none, onChange, plain, disabled, testId, ...control }: Props<Value>) {
  const lost = value !== null && !options.some((one) => one.id === value)
  const rows: (Omit<Option, 'id'> & { id: string | null })[] = [
    ...(none !== undefined ? [{ id: null, name: none }] : []),
    ...(lost ? [{ id: value, name: value }] : []),
    ...options,
  ]
  const shown = rows.find((one) => one.id === value)?.name ?? none ?? '…'
  return (
    <Select.Root
      value={value as string | null}
      onValueChange={(next) => onChange(next as Value | null)}
      disabled={disabled ?? false}
      modal={false}
    >
      <Select.Trigger
        {...control}
        className={`${styles.trigger} ${plain ? styles.plain : styles.field}`}
        data-testid={testId}
        data-value={value ?? ''}
      >
        <span className={styles.value} dir="auto">
          {shown}
        </span>
        <Select.Icon className={styles.icon}>
          <DownChevronIcon size={12} />
        </Select.Icon>
      </Select.Trigger>
      <Select.Portal container={layers}>
        <Select.Positioner className={menu.positioner} sideOffset={4} alignItemWithTrigger={false} align="start">
          <Select.Popup className={styles.popup}>
            <Select.List className={styles.list}>
              {rows.map((one) => (
                <Select.Item key={one.id ?? ''} value={one.id} disabled={one.disabled ?? false} className={styles.item} label={one.name}>
                  <Select.ItemIndicator className={styles.mark}>
                    <CheckIcon size={14} />
                  </Select.ItemIndicator>
                  <Select.ItemText className={styles.text}>{one.name}</Select.ItemText>
                  {one.note && <span className={styles.note}>{one.note}</span>}
                </Select.Item>
              ))}
            </Select.List>
          </Select.Popup>
        </Select.Positioner>
      </Select.Portal>
    </Select.Root>
  )
}
