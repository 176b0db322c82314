import type { Json } from '#core/base/json.ts';

const BYTES = '\u0000bytes';

/** Encodes a value as JSON, with bytes in it, such as images, as text. */
export const toBytesJson = (value: unknown): Buffer =>
  Buffer.from(
    JSON.stringify(plain(value), (_, member: unknown) =>
      member instanceof Uint8Array ? { [BYTES]: Buffer.from(member).toString('base64') } : member,
    ),
  );

/** Decodes what {@link toBytesJson} encoded. */
export const fromBytesJson = (content: Buffer): unknown =>
  JSON.parse(content.toString(), (_, value: Json) => {
    const text = typeof value === 'object' && value !== null && !Array.isArray(value) ? value[BYTES] : undefined;
    return typeof text === 'string' ? Buffer.from(text, 'base64') : value;
  });

/** Makes the buffers in a value plain bytes: JSON would first make a list of numbers of each, which takes long. */
function plain(value: unknown): unknown {
  if (value instanceof Uint8Array) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
  if (Array.isArray(value)) return value.map(plain);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, plain(member)]));
}
