import type { Agent, Layout } from './objects.ts'
import { describe, expect, it } from 'vitest'
import { asked, inForce, noChoice, severalModels } from './choice.ts'

const agent = { id: 'agent_1', name: 'Reviewer', model: 'model-b', layout: 'onyx' } as Agent
const layouts = [
  { name: 'lamella', markers: 'planner' },
  { name: 'lis', markers: 'seed' },
  { name: 'onyx', markers: 'off' },
] as Layout[]

describe('what a new conversation is sent with', () => {
  it('is the default as long as nothing is chosen', () => {
    const shown = inForce(noChoice, [agent], layouts, 'model-a')
    expect(shown).toEqual({ ...noChoice, model: 'model-a', layout: 'lamella', marker_policy: 'planner' })
    expect(asked(noChoice)).toEqual({})
  })

  it('is what the agent names, and its layout names the markers', () => {
    const choice = { ...noChoice, agent_id: 'agent_1' }
    expect(inForce(choice, [agent], layouts, 'model-a')).toMatchObject({ model: 'model-b', layout: 'onyx', marker_policy: 'off' })
    // The server resolves it alike: nothing is asked for that was not chosen.
    expect(asked(choice)).toEqual({ agent_id: 'agent_1' })
  })

  it('is what was chosen before what the agent names', () => {
    const choice = { ...noChoice, agent_id: 'agent_1', layout: 'lis', model: 'model-c', marker_policy: 'auto_tail' }
    expect(inForce(choice, [agent], layouts, 'model-a')).toEqual({ ...choice, project_id: null })
    expect(asked(choice)).toEqual({ agent_id: 'agent_1', layout: 'lis', model: 'model-c', marker_policy: 'auto_tail' })
  })

  it('is shown although the lists are not there yet', () => {
    expect(inForce(noChoice, [], [], null)).toMatchObject({ layout: 'lamella', model: null, marker_policy: null })
  })
})

describe('the models of a message', () => {
  it('are named only where there are several', () => {
    expect(severalModels('a', [])).toEqual({})
    expect(severalModels('a', ['a'])).toEqual({})
    expect(severalModels(null, ['b', 'c'])).toEqual({})
    expect(severalModels('a', ['b', 'a', 'c'])).toEqual({ models: ['a', 'b', 'c'] })
    expect(severalModels('a', ['b', 'c', 'd'])).toEqual({ models: ['a', 'b', 'c'] })
  })
})
