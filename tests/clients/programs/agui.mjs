// AG-UI's own client: two messages, an edit, another answer, a stop, the messages of a thread, and a refusal.
import { HttpAgent } from "@ag-ui/client";

const url = `${process.env.ANTHROPIC_BASE_URL}/api/v1/agui`;
const said = { events: [] };
const agent = new HttpAgent({ url, threadId: "thread-1", headers: { "x-api-key": "any" } });
const shown = (of = agent) => of.messages.map((message) => [message.role, message.content ?? ""]);
let count = 0;
const ask = (content) => ({ id: `user-${++count}`, role: "user", content });
const run = async (of = agent, more = {}) => {
  let finished;
  await of.runAgent(more, {
    onEvent: ({ event }) => void said.events.push(event.type === "CUSTOM" ? event.name : event.type),
    onRunFinishedEvent: ({ event }) => void (finished = event),
    onRunErrorEvent: ({ event }) => void (finished = event),
  });
  return finished;
};

agent.addMessage(ask("How is the lamp in the tower?"));
said.usage = (await run()).usage;
said.first = shown();
agent.addMessage(ask("And the ships?"));
await run(agent, { context: [{ description: "The hour", value: "It is noon." }] });
said.second = shown();
agent.setMessages([...agent.messages.slice(0, -2), ask("And the oil?")]);
await run();
said.edited = shown();
agent.setMessages(agent.messages.slice(0, -1));
await run();
said.again = shown();

// Slow answers are those to "slowly".
agent.addMessage(ask("Tell it slowly."));
const stopping = run().catch((error) => error);
while (agent.messages.at(-1).role !== "assistant" || !agent.messages.at(-1).content) {
  await new Promise((done) => setTimeout(done, 20));
}
agent.abortRun();
await stopping;
said.stopped = agent.messages.at(-1).content.length > 0;
agent.addMessage(ask("Thank you"));
await run();
said.after = shown().at(-1);

const loaded = new HttpAgent({ url, threadId: "thread-1" });
await run(loaded);
said.loaded = shown(loaded);
said.same = loaded.messages.filter((one) => one.role === "assistant").every((one) => agent.messages.some((old) => old.id === one.id));

// A tool that asks first: the run ends with an interrupt, and the next one answers it.
const asks = new HttpAgent({ url, threadId: "thread-2" });
said.approvals = [];
for (const payload of [{ approved: true }, { approved: false, reason: "It is day." }]) {
  asks.addMessage(ask("Light it."));
  const { interrupts } = (await run(asks)).outcome;
  said.approvals.push(interrupts.map(({ reason, message }) => [reason, message]));
  const resume = interrupts.map(({ id }) => ({ interruptId: id, status: "resolved", payload }));
  const { outcome } = await run(asks, { resume });
  said.approvals.push([outcome.type, ...asks.messages.slice(-2).map((message) => [message.role, message.content])]);
}

// A tool that the application runs: the next run brings its result.
const own = new HttpAgent({ url, threadId: "thread-3" });
const parameters = { type: "object", properties: { lamp: { type: "string" } } };
const tools = [{ name: "signal", description: "Signals to the ships.", parameters }];
own.addMessage(ask("Signal the ships."));
const { pendingToolCallIds } = (await run(own, { tools })).outcome;
const [called] = own.messages.at(-1).toolCalls;
const content = `The ships answer ${JSON.parse(called.function.arguments).lamp}.`;
own.addMessage({ id: "result-1", role: "tool", toolCallId: called.id, content });
await run(own, { tools });
own.addMessage(ask("Thank you"));
await run(own, { tools });
said.own = [pendingToolCallIds.length, ...shown(own)];

const refused = new HttpAgent({ url, threadId: "conv_nobody" });
refused.addMessage(ask("Hello?"));
try {
  await run(refused);
} catch (error) {
  said.refused = [error.status, error.payload.error.code];
}
said.events = [...new Set(said.events)].sort();
console.log(JSON.stringify(said));
process.exit(0);
