// A conversation with Lamella through the chat of the AI SDK: node use_chat.mjs "What is a tide?" "And a slot?"
// In a React component the same is: const { messages, sendMessage } = useChat({ transport });
import { Chat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";

const transport = new DefaultChatTransport({
  api: `${process.env.LAMELLA_URL ?? "http://127.0.0.1:8377"}/api/v1/ui/chat`,
  headers: { authorization: `Bearer ${process.env.LAMELLA_KEY ?? "any"}` },
  body: { timezone: Intl.DateTimeFormat().resolvedOptions().timeZone },
});
const chat = new Chat({ transport, onError: (error) => console.error(error.message) });

for (const question of process.argv.slice(2)) {
  await chat.sendMessage({ text: question });
  if (chat.error) process.exit(1);
  for (const part of chat.lastMessage.parts) {
    if (part.type === "text") console.log(part.text);
    if (part.type === "dynamic-tool") console.log(`[calls ${part.toolName}]`);
  }
  console.log(chat.lastMessage.metadata.usage);
}
