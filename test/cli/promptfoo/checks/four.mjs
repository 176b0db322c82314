export default (output, { vars }) => output === '4' && vars.name === 'Ada';
