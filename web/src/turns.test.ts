import { describe, expect, it } from 'vitest'
import { ApiError } from './api.ts'
import { packets } from './example.test-data.ts'
import type { Packet } from './objects.ts'
import { replay, type Outcome } from './turn.ts'
import { Turns } from './turns.ts'

function stream(some: Packet[]): Response {
  return new Response(some.map((one) => `id: ${one.n}\ndata: ${JSON.stringify(one)}\n\n`).join(''))
}

/** A server that has the example turn and breaks each connection after `some` packets. */
function server(some: number, status: Outcome = 'running') {
  const asked: number[] = []
  const paused: number[] = []
  const wire = {
    events: async (_turn: string, after: number) => {
      asked.push(after)
      return stream(packets.filter((one) => one.n > after).slice(0, some))
    },
    record: async () => ({ status }),
    pause: async (attempt: number) => void paused.push(attempt),
  }
  return { wire, asked, paused }
}

describe('following a turn', () => {
  it('replays a stored one', async () => {
    const { wire, asked } = server(100, 'finished')
    const turns = new Turns(wire)
    await turns.open('turn_1', false)
    expect(turns.get('turn_1')).toMatchObject({ view: replay(packets), link: 'closed' })
    await turns.open('turn_1', false)
    expect(asked).toEqual([0])
  })

  it('comes back after every broken connection and shows the same', async () => {
    for (let some = 1; some <= packets.length; some += 1) {
      const { wire, asked } = server(some)
      const turns = new Turns(wire)
      await turns.open('turn_1', true)
      expect(turns.get('turn_1')?.view).toEqual(replay(packets))
      expect(asked.length).toBe(Math.ceil(packets.length / some))
    }
  })

  it('asks for the rest of a stored one that was cut off', async () => {
    const { wire, asked } = server(4, 'finished')
    const turns = new Turns(wire)
    await turns.open('turn_1', false)
    expect(turns.get('turn_1')?.view).toEqual(replay(packets))
    expect(asked.length).toBe(Math.ceil(packets.length / 4))
  })

  it('goes on from the answer that began the turn', async () => {
    const { wire, asked } = server(100)
    const turns = new Turns(wire)
    const ended = new Promise<void>((resolve) => {
      turns.watch((turn, conversation) => turn === 'turn_1' && conversation === 'conv_1' && resolve())
    })
    const started = await turns.adopt(stream(packets.slice(0, 5)))
    expect('conversation_id' in started && started.conversation_id).toBe('conv_1')
    await ended
    await new Promise((resolve) => setTimeout(resolve, 50))
    expect(asked).toEqual([packets[4]!.n])
    expect(turns.get('turn_1')?.view).toEqual(replay(packets))
  })

  it('waits longer while nothing comes, and believes the record when the turn is over', async () => {
    const { wire, paused } = server(0)
    let records = 0
    wire.record = async () => ({ status: (records += 1) < 4 ? 'running' : 'interrupted' })
    const turns = new Turns(wire)
    const ended: (string | null)[][] = []
    turns.watch((...told) => ended.push(told))
    await turns.open('turn_1', true)
    expect(paused).toEqual([1, 2, 3])
    expect(ended).toEqual([['turn_1', null]])
    expect(turns.get('turn_1')?.view).toMatchObject({ ended: true, outcome: 'interrupted' })
  })

  it('gives up when the server says that there is no such turn', async () => {
    const { wire } = server(0)
    wire.events = async () => {
      throw new ApiError(404, { message: 'There is no such turn.', hint: 'It was deleted.' })
    }
    const turns = new Turns(wire)
    await turns.open('turn_1', true)
    expect(turns.get('turn_1')).toMatchObject({ link: 'lost', problem: { message: 'There is no such turn.' } })
  })

  it('tells watchers about the ends of running turns only', async () => {
    const { wire } = server(100, 'finished')
    const turns = new Turns(wire)
    const heard: string[] = []
    turns.watch((turn, conversation) => heard.push(`${turn} ${conversation}`))
    await turns.open('stored', false)
    expect(heard).toEqual([])
    await turns.open('live', true)
    expect(heard).toEqual(['live conv_1'])
  })
})
