import { describe, expect, test } from 'vitest';
import { checkSkillFiles, parseSkill } from './skill.ts';

describe('parseSkill', () => {
  test.each([
    ['---\nname: tone\ndescription: How we write.\n---\n\nBe brief.\n'],
    ['\ufeff---\r\nname: tone\r\ndescription: How we write.\r\n---\r\nBe brief.'],
    ['---\nname: tone\ndescription: >-\n  How we\n  write.\nlicense: MIT\nmetadata:\n  version: 1.0\n---\nBe brief.'],
    ['--- \nname: "tone"\ndescription: "How we write."\n---  \nBe brief.\n'],
  ])('reads %j', (text) => {
    expect(parseSkill(text)).toEqual({
      skill: { name: 'tone', description: 'How we write.', body: 'Be brief.' },
      errors: [],
    });
  });

  test('leaves later lines of dashes in the body', () => {
    expect(parseSkill('---\nname: a\ndescription: b\n---\nx\n---\ny').skill?.body).toBe('x\n---\ny');
  });

  const bomb = `a: &a [x,x,x,x,x,x,x,x,x,x]\n${'bcdefghij'
    .split('')
    .map((name, index) => `${name}: &${name} [${Array(10).fill(`*${'abcdefghij'[index]}`)}]`)
    .join('\n')}`;
  test.each<[string, string, string]>([
    ['no front matter', 'Be brief.', 'must begin with front matter'],
    ['an open end', '---\nname: tone', 'must begin with front matter'],
    ['dashes on a text line', '--- name: tone\n---\nx', 'must begin with front matter'],
    ['no YAML', '---\nname: [\n---\nx', 'has front matter that is not YAML'],
    ['a YAML list', '---\n- name\n---\nx', 'must have front matter with the members name and description'],
    ['a YAML bomb', `---\n${bomb}\n---\nx`, 'not YAML'],
    [
      'no name',
      '---\ndescription: x\n---\nx',
      'must be lower-case letters, digits and single hyphens, at most 64, but is missing',
    ],
    ['a bad name', '---\nname: My Skill\ndescription: x\n---\nx', 'but is "My Skill"'],
    ['a long name', `---\nname: ${'a'.repeat(65)}\ndescription: x\n---\nx`, 'at most 64'],
    ['a number for a name', '---\nname: 7\ndescription: x\n---\nx', 'but is 7'],
    ['no description', '---\nname: a\n---\nx', 'must be 1-1024 characters of text, but is missing'],
    ['a long description', `---\nname: a\ndescription: ${'x'.repeat(1025)}\n---\nx`, 'must be 1-1024 characters'],
    ['no body', '---\nname: a\ndescription: x\n---\n', 'must have instructions'],
  ])('refuses %s', (_, text, message) => {
    const { skill, errors } = parseSkill(text);
    expect(skill).toBeUndefined();
    expect(errors.map((error) => error.message).join('\n')).toContain(message);
  });
});

describe('checkSkillFiles', () => {
  const file = (path: string, content = 'x') => ({ path, content });

  test.each<[string, { path: string; content: string }[]]>([
    ['none', []],
    ['20', Array.from({ length: 20 }, (_, index) => file(`${index}.md`))],
    ['500,000 bytes', [file('a', 'x'.repeat(250_000)), file('b/c', 'ü'.repeat(125_000))]],
  ])('accepts %s', (_, files) => {
    expect(checkSkillFiles(files, 'f').errors).toEqual([]);
  });

  test.each<[string, { path: string; content: string }[], string, string]>([
    ['21', Array.from({ length: 21 }, (_, index) => file(`${index}.md`)), 'f', 'must be at most 20, but are 21'],
    [
      '500,001 bytes',
      [file('a', 'x'.repeat(500_001))],
      'f',
      'must have at most 500000 bytes in total, but have 500001',
    ],
    ['..', [file('a/../b')], 'f[0].path', 'has "..", "." or an empty name in it'],
    ['an absolute path', [file('a'), file('/b')], 'f[1].path', 'is absolute: it must be relative to the root'],
    ['a backslash', [file('a\\b')], 'f[0].path', 'has a backslash in it: separate folders by "/"'],
    ['a path twice', [file('a'), file('a')], 'f[1].path', 'is "a" a second time'],
    [
      'a file that is a folder, too',
      [file('a'), file('a/b')],
      'f[0].path',
      'is "a", which is a folder of another file',
    ],
    ['binary content', [file('a', 'x\0')], 'f[0].content', 'must be text'],
  ])('refuses %s', (_, files, field, message) => {
    expect(checkSkillFiles(files, 'f').errors).toEqual([{ field, message }]);
  });
});
