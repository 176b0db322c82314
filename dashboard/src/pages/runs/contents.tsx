import type { ReactNode } from 'react';
import type { AnswerOf } from '../../api/client.ts';
import { bytes, count } from '../../ui/data/numbers.tsx';
import { escapeText } from '../../ui/text/escape-text.ts';
import { JsonView, TextView } from '../../ui/text/viewer.tsx';

export type Content = NonNullable<AnswerOf<'listTraceEvents'>['events'][number]['content']>;

export const Part = ({ title, children }: { readonly title: string; readonly children: ReactNode }) => (
  <div className="flex min-w-0 flex-col gap-1">
    <h3 className="font-medium">{title}</h3>
    {children}
  </div>
);

/** Contents of one event of a step: the start has the request, the end the response. */
export function Contents({
  content: { messages = [], left_out = 0, arguments: given, result },
  name,
}: {
  readonly content: Content;
  /** Name of downloaded files. */
  readonly name: string;
}) {
  return (
    <>
      {left_out > 0 && <p className="text-soft">{`${count(left_out)} older messages are not stored.`}</p>}
      {messages.map((message, index) => (
        <Part
          // biome-ignore lint/suspicious/noArrayIndexKey: they never change their places.
          key={index}
          title={`${WORDS[message.role]}${message.tool_name ? ` ${escapeText(message.tool_name)}` : ''}${message.is_error ? ' (error)' : ''}`}
        >
          <TextOrJson text={message.text} name={`${name}-${index}`} />
          {(message.files ?? []).map((file) => (
            <p key={file.name} className="text-soft">
              {escapeText(file.name)} · {file.media_type} · {bytes(file.bytes)}
            </p>
          ))}
        </Part>
      ))}
      {given && (
        <Part title="Arguments">
          <TextOrJson text={given.text} name={`${name}-arguments`} />
        </Part>
      )}
      {result && (
        <Part title="Result">
          <TextOrJson text={result.text} name={`${name}-result`} />
        </Part>
      )}
    </>
  );
}

const WORDS = { system: 'System', user: 'User', assistant: 'Assistant', tool_call: 'Tool call', tool: 'Tool result' };

/** Text, shown as JSON if it parses. */
function TextOrJson({ text, name }: { readonly text: string; readonly name: string }) {
  if (!/^\s*[{[]/.test(text)) return <TextView text={text} name={name} />;
  try {
    return <JsonView value={JSON.parse(text)} name={name} />;
  } catch {
    return <TextView text={text} name={name} />;
  }
}
