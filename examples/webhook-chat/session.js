import { createHmac } from 'node:crypto';
import { isSame } from './signature.js';

const COOKIE = 'chat_session';
const SECONDS = 30 * 24 * 3600;

/** Access control: people have a cookie from the page, programs send `Authorization: Bearer <password>`. */
export class Sessions {
  #password;

  /** @param {string} password changing it ends all sessions */
  constructor(password) {
    this.#password = password;
  }

  isPassword(text) {
    return isSame(text, this.#password);
  }

  /** Returns the `Set-Cookie` header that signs a person in. */
  begin(name, isSecure, now = Date.now()) {
    const content = `${Buffer.from(name).toString('base64url')}.${Math.floor(now / 1000) + SECONDS}`;
    return this.#cookie(`${content}.${this.#sign(content)}`, SECONDS, isSecure);
  }

  end(isSecure) {
    return this.#cookie('', 0, isSecure);
  }

  /** Returns the name of the caller; `undefined` without a valid session. */
  nameOf({ headers }, now = Date.now()) {
    const [, password] = /^Bearer (.+)$/.exec(headers.authorization ?? '') ?? [];
    if (password !== undefined && this.isPassword(password)) return 'a program';
    const [, cookie = ''] = new RegExp(`(?:^|; )${COOKIE}=([^;]*)`).exec(headers.cookie ?? '') ?? [];
    const [name = '', until = '', signature = ''] = cookie.split('.');
    if (!isSame(signature, this.#sign(`${name}.${until}`)) || Number(until) * 1000 < now) return undefined;
    return Buffer.from(name, 'base64url').toString();
  }

  #sign(content) {
    return createHmac('sha256', `session ${this.#password}`).update(content).digest('base64url');
  }

  /** Other sites can neither read this cookie nor make browsers send it. */
  #cookie(value, seconds, isSecure) {
    return `${COOKIE}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Strict${isSecure ? '; Secure' : ''}`;
  }
}
