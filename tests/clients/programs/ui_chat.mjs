// The AI SDK's chat, as useChat has it: two messages, an edit, another answer, a stop, and following a turn again.
import { Chat } from "@ai-sdk/react";
import * as ai from "ai";

const api = `${process.env.ANTHROPIC_BASE_URL}/api/v1/ui/chat`;
const told = [];

function chatOf(id, body, messages, more = {}) {
  const transport = new ai.DefaultChatTransport({ api, body });
  return new Chat({ id, messages, transport, onData: (part) => told.push(part.type), ...more });
}

const text = (message) => message.parts.filter((part) => part.type === "text").map((part) => part.text).join("|");
const shown = (chat) => chat.messages.map((message) => [message.role, text(message)]);
const begun = async (chat, length) => {
  while (chat.messages.length < length || !text(chat.lastMessage)) await new Promise((done) => setTimeout(done, 20));
};
const said = {};

const chat = chatOf("thread-1");
await chat.sendMessage({ text: "How is the lamp in the tower?" });
said.first = shown(chat);
said.parts = chat.messages[1].parts;
said.metadata = chat.messages[1].metadata;
await chat.sendMessage({ text: "And the ships?" });
said.second = shown(chat);
await chat.sendMessage({ text: "And the oil?", messageId: chat.messages[2].id });
said.edited = shown(chat);
await chat.regenerate();
said.again = shown(chat);
said.told = [...new Set(told)].sort();

// Slow answers are those to "slowly".
const stopped = chat.sendMessage({ text: "Tell it slowly." });
await begun(chat, 6);
await chat.stop();
await stopped;
said.stopped = [chat.status, text(chat.messages.at(-1)).length > 0];
await chat.sendMessage({ text: "Thank you" });
said.after = [chat.status, ...shown(chat).at(-1)];

// A page that is loaded again while its turn runs: the new chat has the user's message only, and follows.
const left = chatOf("thread-2", { resumable: true });
const asked = left.sendMessage({ text: "Tell it slowly again." });
await begun(left, 2);
const loaded = chatOf("thread-2", { resumable: true }, [left.messages[0]]);
await left.stop();
await asked;
await loaded.resumeStream();
said.resumed = [loaded.status, shown(loaded).length, text(loaded.messages.at(-1))];
await loaded.resumeStream();
said.idle = loaded.status;

// A tool that asks first: the chat sends itself when the user has answered. Version 5 has no such calls.
const asks = chatOf("thread-3", {}, [], { sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithApprovalResponses });
const call = () => asks.lastMessage?.parts.find((part) => part.type === "dynamic-tool");
const until = async (state) => {
  while (asks.status !== "ready" || call()?.state !== state) await new Promise((done) => setTimeout(done, 20));
};
if (ai.lastAssistantMessageIsCompleteWithApprovalResponses) {
  said.approvals = [];
  for (const [approved, state] of [[true, "output-available"], [false, "output-denied"]]) {
    await asks.sendMessage({ text: "Light it." });
    said.approvals.push(call().state);
    await asks.addToolApprovalResponse({ id: call().approval.id, approved, reason: "It is day." });
    await until(state);
    said.approvals.push([call().state, call().output ?? null, text(asks.lastMessage)]);
  }
}

// A tool that the application runs: the chat sends itself with its result.
const signal = { description: "Signals to the ships.", inputSchema: { type: "object", properties: { lamp: { type: "string" } } } };
const own = chatOf("thread-4", { tools: { signal } }, [], {
  sendAutomaticallyWhen: ai.lastAssistantMessageIsCompleteWithToolCalls,
  onToolCall: ({ toolCall: { toolCallId, toolName, input } }) =>
    void own.addToolOutput({ tool: toolName, toolCallId, output: { answer: `The ships answer ${input.lamp}.` } }),
});
await own.sendMessage({ text: "Signal the ships." });
while (own.status !== "ready" || !text(own.lastMessage)) await new Promise((done) => setTimeout(done, 20));
said.own = [own.lastMessage.parts.find((part) => part.type === "tool-signal").state, ...shown(own)];
await own.sendMessage({ text: "Thank you" });
said.owned = shown(own).at(-1);

const refused = chatOf("conv_nobody");
await refused.sendMessage({ text: "Hello?" });
said.refused = [refused.status, String(refused.error?.message)];
console.log(JSON.stringify(said));
