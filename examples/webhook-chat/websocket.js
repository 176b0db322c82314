import { isUtf8 } from 'node:buffer';
import { createHash } from 'node:crypto';

/** RFC 6455, section 1.3. */
const GUID = '258EAFA5-E914-47DA-95CA-C5AB0DC85B11';
const [CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG] = [0, 1, 2, 8, 9, 10];
const MAX_MESSAGE_BYTES = 16 * 1024;
/** Maximum number of bytes buffered for a slow reader before it is disconnected. */
const MAX_WAITING_BYTES = 1024 * 1024;
const PING_MS = 30_000;
/** Time until a client that does not close the connection is disconnected. */
const CLOSE_MS = 3000;

/**
 * The server side of a WebSocket for text messages, without extensions (RFC 6455). The `ws` package can do more, but
 * this is enough for a text page and needs no installation.
 */
export class TextSocket {
  #socket;
  #onText;
  #pending = Buffer.alloc(0);
  /** Received part of a message with several frames. @type {Buffer | undefined} */
  #begun;
  #isAnswered = true;
  #timer;

  /**
   * Answers an upgrade request, or refuses it with a status of 400.
   *
   * @param {import('node:http').IncomingMessage} request
   * @param {import('node:net').Socket} socket
   * @param {Buffer} head
   * @param {{ text(text: string, socket: TextSocket): void, close(socket: TextSocket): void }} listener
   * @returns {TextSocket | undefined}
   */
  static accept(request, socket, head, listener) {
    const { upgrade, 'sec-websocket-key': key, 'sec-websocket-version': version } = request.headers;
    socket.on('error', () => socket.destroy());
    if (request.method !== 'GET' || upgrade?.toLowerCase() !== 'websocket' || !key || version !== '13') {
      socket.end('HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Length: 0\r\n\r\n');
      return undefined;
    }
    const accept = createHash('sha1')
      .update(key + GUID)
      .digest('base64');
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    return new TextSocket(socket, head, listener);
  }

  constructor(socket, head, listener) {
    this.#socket = socket;
    this.#onText = (text) => listener.text(text, this);
    socket.setNoDelay(true);
    socket.on('data', (data) => this.#take(data));
    socket.once('end', () => socket.destroy());
    socket.once('close', () => {
      clearInterval(this.#timer);
      listener.close(this);
    });
    // A browser without a network sends nothing. While connected, it answers pings automatically.
    this.#timer = setInterval(() => {
      if (!this.#isAnswered) return void socket.destroy();
      this.#isAnswered = false;
      this.#send(PING, Buffer.alloc(0));
    }, PING_MS);
    if (head.length > 0) this.#take(head);
  }

  /** Sends a text message. */
  send(text) {
    this.#send(TEXT, Buffer.from(text));
  }

  /** Closes the connection: 1000 means done, 1001 that the server is shutting down. */
  close(code = 1000) {
    const data = Buffer.alloc(2);
    data.writeUInt16BE(code);
    this.#send(CLOSE, data);
    this.#socket.end();
    setTimeout(() => this.#socket.destroy(), CLOSE_MS).unref();
  }

  #send(opcode, data) {
    if (!this.#socket.writable) return;
    if (this.#socket.writableLength > MAX_WAITING_BYTES) return void this.#socket.destroy();
    const length =
      data.length < 126 ? Buffer.from([data.length]) : Buffer.from([126, data.length >> 8, data.length & 255]);
    const long = Buffer.alloc(9, 127);
    if (data.length > 65_535) long.writeBigUInt64BE(BigInt(data.length), 1);
    this.#socket.write(Buffer.concat([Buffer.from([0x80 | opcode]), data.length > 65_535 ? long : length, data]));
  }

  #take(data) {
    this.#pending = Buffer.concat([this.#pending, data]);
    for (let frame = this.#next(); frame !== undefined; frame = this.#next()) {
      const code = typeof frame === 'number' ? frame : this.#handle(frame);
      if (code === undefined) continue;
      this.#socket.removeAllListeners('data').resume();
      return this.close(code);
    }
  }

  /**
   * Takes the next frame from the received bytes. Returns a close code for an invalid frame; `undefined` if more bytes
   * are needed.
   */
  #next() {
    const bytes = this.#pending;
    if (bytes.length < 2) return undefined;
    const [first, second] = bytes;
    const opcode = first & 15;
    // No extension was negotiated, and browsers mask everything that they send.
    if (first & 0x70 || !(second & 0x80)) return 1002;
    let length = second & 127;
    // Longer than a control frame or a message may be.
    if (length === 127 || (length === 126 && opcode >= CLOSE)) return opcode >= CLOSE ? 1002 : 1009;
    let at = 2;
    if (length === 126) {
      if (bytes.length < 4) return undefined;
      length = bytes.readUInt16BE(2);
      at = 4;
    }
    if (length > MAX_MESSAGE_BYTES) return 1009;
    if (bytes.length < at + 4 + length) return undefined;
    const mask = bytes.subarray(at, at + 4);
    const data = Buffer.from(bytes.subarray(at + 4, at + 4 + length));
    for (let index = 0; index < length; index++) data[index] ^= mask[index & 3];
    this.#pending = bytes.subarray(at + 4 + length);
    return { opcode, data, isLast: (first & 0x80) !== 0 };
  }

  /** @returns {number | undefined} the code to close the connection with */
  #handle({ opcode, data, isLast }) {
    if (opcode === PONG) this.#isAnswered = true;
    else if (opcode === PING) this.#send(PONG, data);
    else if (opcode === CLOSE) return 1000;
    else {
      if (opcode !== (this.#begun === undefined ? TEXT : CONTINUATION)) return opcode === BINARY ? 1003 : 1002;
      const message = this.#begun === undefined ? data : Buffer.concat([this.#begun, data]);
      if (message.length > MAX_MESSAGE_BYTES) return 1009;
      this.#begun = isLast ? undefined : message;
      if (!isLast) return undefined;
      if (!isUtf8(message)) return 1007;
      this.#onText(message.toString());
    }
    return undefined;
  }
}
