import { Popover } from '@base-ui/react/popover'
import { type Choice, DEFAULT_LAYOUT, markerPolicies } from '../choice.ts'
import { layers } from '../layers.ts'
import { useLayouts } from '../resourceQueries.ts'
import styles from './ChoiceLine.module.css'
import { Choose } from './Choose.tsx'
import { Field } from './Field.tsx'
import { LayersIcon } from './icons.tsx'
import menu from './Menu.module.css'

interface Props {
  choice: Pick<Choice, 'layout' | 'marker_policy'>
  /** What the last change loses of the cache, in words. */
  loss: string | null
  onChange: (patch: Partial<Choice>) => void
}

/** The expert choices: the order of the window, and where the provider is told to cache it. */
export function ContextPopover({ choice, loss, onChange }: Props) {
  const layouts = useLayouts().data ?? []
  return (
    <Popover.Root>
      <Popover.Trigger className={styles.context} data-testid="choose-context">
        <LayersIcon size={14} />
        {choice.layout === null || choice.layout === DEFAULT_LAYOUT ? 'Context' : `Context: ${choice.layout}`}
      </Popover.Trigger>
      <Popover.Portal container={layers}>
        <Popover.Positioner className={menu.positioner} side="top" align="start" sideOffset={6}>
          <Popover.Popup className={menu.panel} data-testid="context-popover">
            <Popover.Title>Context</Popover.Title>
            <Field label="Layout" hint={layouts.find((one) => one.name === choice.layout)?.description}>
              {(control) => (
                <Choose
                  {...control}
                  value={choice.layout}
                  options={layouts.map(({ name, description }) => ({ id: name, name, note: description }))}
                  onChange={(layout) => onChange({ layout })}
                  testId="choose-layout"
                />
              )}
            </Field>
            <Field label="Cache markers" hint={choice.marker_policy === null ? undefined : markerPolicies[choice.marker_policy]?.does}>
              {(control) => (
                <Choose
                  {...control}
                  value={choice.marker_policy}
                  options={Object.entries(markerPolicies).map(([id, { name, does }]) => ({ id, name, note: does }))}
                  onChange={(marker_policy) => onChange({ marker_policy })}
                  testId="choose-markers"
                />
              )}
            </Field>
            <Popover.Description>
              A change of either holds from the next message on. What the cache holds of this chat may have to be written once more.
            </Popover.Description>
            {loss !== null && (
              <p role="status" data-testid="context-loss">
                {loss}
              </p>
            )}
          </Popover.Popup>
        </Popover.Positioner>
      </Popover.Portal>
    </Popover.Root>
  )
}
