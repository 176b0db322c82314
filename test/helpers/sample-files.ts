import { crc32, deflateSync } from 'node:zlib';

/** Returns a complete PNG in one color, with `padding` meaningless bytes. */
export function png(width = 812, height = 400, padding = 0): Buffer {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header.set([8, 0], 8);
  const rows = deflateSync(Buffer.alloc((width + 1) * height));
  const parts = [chunk('IHDR', header), chunk('tEXt', Buffer.alloc(padding, 'x')), chunk('IDAT', rows), chunk('IEND')];
  return Buffer.concat([Buffer.from('\x89PNG\r\n\x1a\n', 'latin1'), ...parts]);
}

function chunk(type: string, data: Buffer = Buffer.alloc(0)): Buffer {
  const body = Buffer.concat([Buffer.from(type), data]);
  return Buffer.concat([uint32(data.byteLength), body, uint32(crc32(body))]);
}

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

/** Returns the segments of a JPEG up to its size, and the end marker. */
export function jpeg(width = 640, height = 480): Buffer {
  const frame = Buffer.from('ffc0001108000000000301220002110103110100', 'hex');
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  // A comment segment precedes the frame.
  return Buffer.concat([Buffer.from('ffd8fffe0006cafecafe', 'hex'), frame, Buffer.from('ffd9', 'hex')]);
}

export function gif(width = 10, height = 20): Buffer {
  const bytes = Buffer.from('GIF89a\0\0\0\0\0\0\0;', 'latin1');
  bytes.writeUInt16LE(width, 6);
  bytes.writeUInt16LE(height, 8);
  return bytes;
}

/** Returns a WebP file in the extended format. */
export function webp(width = 30, height = 40): Buffer {
  const bytes = Buffer.concat([Buffer.from('RIFF\x16\0\0\0WEBPVP8X\x0a\0\0\0', 'latin1'), Buffer.alloc(10)]);
  bytes.writeUIntLE(width - 1, 24, 3);
  bytes.writeUIntLE(height - 1, 27, 3);
  return bytes;
}

export const heic = (): Buffer => Buffer.from('\0\0\0\x18ftypheic\0\0\0\0mif1heic', 'latin1');

export function pdf(pages = 1): Buffer {
  const objects = Array.from({ length: pages }, (_, i) => `${i + 3} 0 obj\n<< /Type /Page /Parent 2 0 R >>\nendobj\n`);
  return Buffer.from(`%PDF-1.7\n2 0 obj\n<< /Type /Pages /Count ${pages} >>\nendobj\n${objects.join('')}%%EOF\n`);
}

export const wav = (bytes = 100): Buffer =>
  Buffer.concat([Buffer.from('RIFF\x24\0\0\0WAVEfmt ', 'latin1'), Buffer.alloc(bytes - 16)]);

export const mp3 = (): Buffer => Buffer.from('ID3\x04\0\0\0\0\0\0', 'latin1');

/** Returns the first bytes of a Linux program. */
export const executable = (): Buffer =>
  Buffer.concat([Buffer.from('\x7fELF\x02\x01\x01', 'latin1'), Buffer.alloc(200)]);
